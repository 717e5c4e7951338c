"""A gateway between the clients and a scripted upstream, with all that guards it on."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from tests.clients import page
from tests.clients.install import FOLDER, NODE, PYTHON
from tests.clients.upstream import Answer, Sent, Upstream, relay
from tests.support.script import settings
from tests.support.wire import tokens

from hookgate import Gateway
from hookgate.core.gateway.serve import listen

STORIES = Path(__file__).parent / "stories"
MODELS = {"chat": "chat/big", "responses": "responses/big", "messages": "messages/big"}
"""The model that each wire's clients ask for: of a provider of the same wire."""

KNOWN = "gpt-5.5"
"""A model of which Codex knows that it searches for tools."""
MODELS_OF = {KNOWN: MODELS["responses"]}
"""What such names stand for here."""


@dataclass
class Between:
    """A gateway, what its clients send it, and what it sends on.

    Attributes:
        url: Where clients find it.
        key: What lets them in.
        boss: What lets somebody in who may answer questions.
        own: Where the gateway itself is; between it and `url` stands what keeps `sent`.
        gateway: It.
        upstream: Who answers.
        sent: What the clients have sent.
    """

    url: str
    key: str
    boss: str
    own: str
    gateway: Gateway
    upstream: Upstream
    sent: list[Sent] = field(default_factory=list)


Make: TypeAlias = "Callable[..., Any]"


@asynccontextmanager
async def between(
    home: Path, script: Callable[[Any], Answer], **sections: Any
) -> AsyncIterator[Between]:
    """Serve a gateway whose three providers are one scripted upstream."""
    section, made = tokens(client={"scopes": ["chat"]}, boss={"scopes": ["approve", "read"]})
    async with AsyncExitStack() as stack:
        upstream = await stack.enter_async_context(Upstream(script).serving())
        kinds = {
            "chat": {"kind": "openai", "base_url": f"{upstream.url}/v1"},
            "responses": {"kind": "openai", "api": "responses", "base_url": f"{upstream.url}/v1"},
            "messages": {"kind": "anthropic", "base_url": upstream.url},
        }
        for one in kinds.values():
            one["api_key"] = "sk-upstream-canary"
        plugin = {"providers": kinds, **sections.pop("plugin", {})}
        config = settings(
            home,
            agents={"main": {"model": "chat/big"}},
            plugin=plugin,
            gateway={"port": 0, **section},
            **sections,
        )
        gateway = await stack.enter_async_context(Gateway(config))
        listener = await stack.enter_async_context(listen(gateway))
        own = f"http://127.0.0.1:{listener.port}"
        found = Between(own, made["client"], made["boss"], own, gateway, upstream)
        found.url = await stack.enter_async_context(relay(found.url, found.sent))
        yield found


async def told(program: str, wire: str, story: str, there: Between, model: str = "") -> Any:
    """Return what a client's program says of a story."""
    words = [there.url, there.key, model or MODELS[wire], wire, story]
    if program.startswith("python"):
        command = [str(PYTHON), str(STORIES / f"{program}.py"), *words]
    else:
        shutil.copy(STORIES / f"{program}.mjs", FOLDER)
        command = [str(NODE / ".bin" / "node"), str(FOLDER / f"{program}.mjs"), *words]
    out, err = await run(command)
    assert out.strip(), err[-2000:]
    return json.loads(out)


async def run(
    command: Sequence[str], *, folder: Path | None = None, **environ: str
) -> tuple[str, str]:
    """Run a program to its end; return what it has written."""
    process = await asyncio.create_subprocess_exec(
        *command,
        cwd=folder,
        env={**os.environ, **environ},
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        async with asyncio.timeout(120):
            out, err = await process.communicate()
    except BaseException:
        process.kill()
        await process.wait()
        raise
    return out.decode(), err.decode()


def unchanged(came: dict[str, Any], went: dict[str, Any]) -> dict[str, Any]:
    """Return what differs of a request, but for what has to."""
    came, went = {**came}, {**went}
    asked = came.pop("model")
    assert MODELS_OF.get(asked, asked).partition("/")[2] == went.pop("model")
    for body in (came, went):
        body.pop("stream", None)
        body.pop("stream_options", None)
    names = {**came, **went}
    return {
        name: (came.get(name), went.get(name)) for name in names if came.get(name) != went.get(name)
    }


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark all that stands here, and pass over it where the clients are not installed."""
    for item in items:
        if item.nodeid.startswith("tests/clients/"):
            item.add_marker(pytest.mark.clients)
            if not PYTHON.exists():
                item.add_marker(pytest.mark.skip(reason="`make test-clients` installs the clients"))
            elif "[python_" not in item.nodeid and not NODE.exists():
                item.add_marker(pytest.mark.skip(reason="no npm: clients that run on node"))


PAGE = os.environ.get("HOOKGATE_CLIENTS_PAGE")
"""Where a run writes which client can do what; nowhere, where nothing is said."""
LEAST_COMPARED = 200
"""Requests that a whole run compares at least: as a client has sent them, and as they went on."""
LEAST_TESTS = 100
"""Tests that a whole run has at least."""

_outcomes: dict[str, str] = {}
_compared: list[int] = []


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Keep what became of each test."""
    if "tests/clients/" in report.nodeid and (report.when == "call" or report.skipped):
        _outcomes[report.nodeid] = report.outcome
        if report.when == "call" and report.passed:
            _compared.extend(count for name, count in report.user_properties if name == "compared")


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Say how much was compared, and write the page, once: not each of the workers."""
    if hasattr(session.config, "workerinput") or not _compared:
        return
    compared = sum(_compared)
    print(f"\n{compared} requests compared upstream, 0 differences")
    is_whole = not session.config.option.keyword and set(_outcomes.values()) == {"passed"}
    if is_whole and len(_outcomes) > LEAST_TESTS and compared < LEAST_COMPARED:
        print(f"expected {LEAST_COMPARED} at least")
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
    if PAGE:
        Path(PAGE).write_text(page.text(_outcomes, compared), encoding="utf-8")
