from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from pydantic import ValidationError
from tests.builtin_plugins.turns import make_host

from hookgate.builtin_plugins.egress.plugin import Plugin
from hookgate.builtin_plugins.egress.settings import EgressSettings
from hookgate.core.ports import EGRESS

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


def test_what_the_plugin_provides_is_declared() -> None:
    assert Plugin.provides == (EGRESS,)


@pytest.mark.parametrize("host", ["http://ollama", "10.0.0.0/8", "*", "ollama:", "ollama:1:2", ""])
def test_a_private_host_is_a_name_with_or_without_a_port(host: str) -> None:
    with pytest.raises(ValidationError, match="expected a host name"):
        EgressSettings(private_hosts=(host,))
