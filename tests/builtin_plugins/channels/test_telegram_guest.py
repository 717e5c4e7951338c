"""The Telegram guest behind a webhook that is set up as its page says."""

from __future__ import annotations

from pathlib import Path

from tests.builtin_plugins.channels.conftest import GUEST, Serve
from tests.support.bot_api import SECRET_HEADER, TOKEN, BotApi
from tests.support.telegram import SECRET

from hookgate.kit.testing.model import ScriptedModel

POLLING = "[channel.polling]\nseconds = 25\n"


async def test_a_post_that_is_no_update_is_answered_with_400_and_an_update_with_200(
    serve: Serve, api: BotApi, tmp_path: Path
) -> None:
    page = (GUEST / "README.md").read_text(encoding="utf-8")
    webhook = page.partition("```toml\n")[2].partition("```")[0]
    manifest = (GUEST / "hookgate-plugin.toml").read_text(encoding="utf-8")
    assert "[channel.webhook]" in webhook
    assert POLLING in manifest
    plugin = tmp_path / "telegram"
    plugin.mkdir()
    (plugin / "telegram.wasm").write_bytes((GUEST / "telegram.wasm").read_bytes())
    (plugin / "hookgate-plugin.toml").write_text(manifest.replace(POLLING, webhook))

    async with serve(
        model=ScriptedModel(),
        channels={},
        plugin={"wasm": {"folders": [str(plugin)]}},
        secrets={"TELEGRAM_BOT_TOKEN": TOKEN, "TELEGRAM_WEBHOOK_SECRET": SECRET},
    ) as served:
        url = f"{served.url}/webhook/wasm.telegram"
        for body, status in ((b"[]", 400), (b"{", 400), (b'{"update_id": 1}', 200)):
            headers = {SECRET_HEADER: SECRET}
            async with served.http.post(url, data=body, headers=headers) as answer:
                assert answer.status == status
