from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import structlog
from pydantic import ValidationError
from tests.builtin_plugins.turns import make_host

from hookgate import EgressDeniedError
from hookgate.builtin_plugins.egress.plugin import Plugin
from hookgate.builtin_plugins.egress.service import EgressSettings
from hookgate.ports import EGRESS

if TYPE_CHECKING:
    from tests.builtin_plugins.egress.upstream import Upstream


async def test_the_plugin_provides_egress_for_its_life(server: Upstream) -> None:
    host = make_host()
    plugin = Plugin(EgressSettings())
    url = f"http://127.0.0.1:{server.port}/"
    async with plugin.lifespan(host):
        client = host[EGRESS].client([f"{url}*"], name="test")
        assert (await client.get(url)).text == "hello"
    assert client.is_closed


async def test_a_denied_request_is_logged_without_its_secrets(server: Upstream) -> None:
    host = make_host()
    with structlog.testing.capture_logs() as log:
        async with Plugin(EgressSettings()).lifespan(host):
            client = host[EGRESS].client([f"http://127.0.0.1:{server.port}/*"], name="acme")
            for url in ("http://10.0.0.1/?key=canary", "http://u:canary@[::1"):
                with pytest.raises(EgressDeniedError):
                    await client.get(url)
    assert [entry["event"] for entry in log] == ["outgoing request denied"] * 2
    assert all(entry["why"].startswith("acme: ") for entry in log)
    assert "canary" not in str(log)


def test_what_the_plugin_provides_is_declared() -> None:
    assert Plugin.provides == (EGRESS,)


@pytest.mark.parametrize("host", ["http://ollama", "10.0.0.0/8", "*", "ollama:", "ollama:1:2", ""])
def test_a_private_host_is_a_name_with_or_without_a_port(host: str) -> None:
    with pytest.raises(ValidationError, match="expected a host name"):
        EgressSettings(private_hosts=(host,))
