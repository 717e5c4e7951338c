"""Bad upstreams behind each wire, as the vendors' SDKs tell them: the class, and one more try."""

from __future__ import annotations

import json
import socket
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from tests.builtin_plugins.providers.raw import raw_server
from tests.clients.conftest import STORIES, run, unchanged
from tests.clients.faults import FAULTS, WIRES, Fault, providers, script
from tests.clients.install import PYTHON
from tests.clients.upstream import Sent, relay
from tests.support.script import settings
from tests.support.wire import tokens

from hookgate import Gateway
from hookgate.core.gateway.serve import listen

SECONDS = 1.5
OPENAI = {
    400: "BadRequestError",
    404: "NotFoundError",
    413: "APIStatusError",
    429: "RateLimitError",
}
ANTHROPIC = {
    **OPENAI,
    413: "ContentTooLargeError",
    503: "ServiceUnavailableError",
    504: "GatewayTimeoutError",
    529: "OverloadedError",
}


def class_of(wire: str, status: int) -> str:
    """Return the class by which an SDK tells a status."""
    known = ANTHROPIC if wire == "messages" else OPENAI
    return known.get(status, "InternalServerError")


def expected(wire: str, fault: Fault) -> dict[str, Any]:
    """Return what an SDK is to say."""
    if fault.status == 0:
        last = {"chat": "chunk", "messages": "message_stop", "responses": "response.completed"}
        return {"whole": {"whole": True}, "streamed": {"last": last[wire]}}
    status = fault.told(wire)
    whole = {"error": class_of(wire, status), "status": status}
    streamed = whole
    if wire in fault.within:
        streamed = {
            "chat": {"error": "APIError", "status": None},
            "messages": {"error": "APIStatusError", "status": 200},
            "responses": {"last": "response.failed"},
        }[wire]
    return {"whole": whole, "streamed": streamed}


@pytest.mark.parametrize(
    ("program", "wire"),
    [(f"python_{'anthropic' if wire == 'messages' else 'openai'}", wire) for wire in WIRES],
)
async def test_each_fault_is_told_by_its_class_and_no_refusal_is_tried_again(
    program: str, wire: str, tmp_path: Path, record_property: Any
) -> None:
    section, made = tokens(client={"scopes": ["chat"]})
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        gone = f"http://127.0.0.1:{nobody.getsockname()[1]}"
        async with raw_server() as upstream:
            upstream.script = script(wire)
            plugin = {
                "providers": providers(
                    wire, upstream.url.removesuffix("/v1"), gone, seconds=SECONDS
                ),
                "policy": {"profile": "open"},
            }
            config = settings(
                tmp_path,
                agents={"main": {"model": f"{wire}/big"}},
                plugin=plugin,
                gateway={"port": 0, **section},
            )
            sent: list[Sent] = []
            async with (
                Gateway(config) as gate,
                listen(gate) as listener,
                relay(f"http://127.0.0.1:{listener.port}", sent) as url,
            ):
                models = [fault.model(wire) for fault in FAULTS]
                words = [str(STORIES / "python_faults.py"), url, made["client"], wire, *models]
                out, err = await run([str(PYTHON), *words])
    assert out, err[-2000:]
    said = json.loads(out)
    found: dict[str, Any] = {}
    for fault in FAULTS:
        both = said[fault.model(wire)]
        found[fault.name] = {
            how: {key: one[key] for key in ("whole", "error", "status", "last") if key in one}
            for how, one in both.items()
        }
    assert found == {fault.name: expected(wire, fault) for fault in FAULTS}
    # No call of an answer that broke off behind it has come.
    cut = said[f"{wire}/cut-behind-a-call"]
    assert cut["streamed"]["calls"] == cut["whole"]["calls"] == 0
    # Who counts its tries is left to them: this SDK tries twice what may pass, unless it has begun.
    came = Counter(request["model"] for request in upstream.requests)
    tries = {
        fault.name: (3 if wire in fault.within else 4) if fault.again else 2
        for fault in FAULTS
        if fault.provider != "gone"
    }
    assert came == tries
    # Whatever becomes of it: what was sent went on as it came.
    asked = {one.json["model"].partition("/")[2]: one.json for one in sent}
    for request in upstream.requests:
        assert unchanged(asked[request["model"]], request) == {}
    record_property("compared", sum("-gone/" not in one.json["model"] for one in sent))
