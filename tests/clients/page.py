"""The page of the documentation that says what each client can do: a run of the tests writes it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from tests.clients.faults import FAULTS
from tests.clients.install import pins

HEAD = """\
# Other people's clients

Written by `make clients-page`, from a run of `make test-clients`: each mark is a test in which the
client, unmodified, spoke to a gateway whose upstream spoke the same wire, with policy, metering and
audit on. What the upstream was sent differed in nothing but the model's name, the key and the flag
that asks for usage: COMPARED requests were compared, with 0 differences. Besides, each vendor's SDK
meets FAULTS faults of an upstream on each wire, tells them by the class of error that it has for
them, and tries none again that was refused. How a client is pointed to a gateway stands on the page
of the plugin [compat](plugins/compat.md).

"""

CLIENTS = {
    ("python_openai", "chat"): ("openai (Python)", "pypi", "openai"),
    ("python_openai", "responses"): ("openai (Python)", "pypi", "openai"),
    ("python_anthropic", "messages"): ("anthropic (Python)", "pypi", "anthropic"),
    ("python_agents", "chat"): ("openai-agents (Python)", "pypi", "openai-agents"),
    ("python_agents", "responses"): ("openai-agents (Python)", "pypi", "openai-agents"),
    ("python_pydantic", "chat"): ("pydantic-ai (Python)", "pypi", "pydantic-ai-slim"),
    ("python_pydantic", "responses"): ("pydantic-ai (Python)", "pypi", "pydantic-ai-slim"),
    ("python_pydantic", "messages"): ("pydantic-ai (Python)", "pypi", "pydantic-ai-slim"),
    ("python_litellm", "chat"): ("litellm (Python)", "pypi", "litellm"),
    ("python_litellm", "responses"): ("litellm (Python)", "pypi", "litellm"),
    ("python_litellm", "messages"): ("litellm (Python)", "pypi", "litellm"),
    ("node_openai", "chat"): ("openai (npm)", "npm", "openai"),
    ("node_openai", "responses"): ("openai (npm)", "npm", "openai"),
    ("node_anthropic", "messages"): ("@anthropic-ai/sdk (npm)", "npm", "@anthropic-ai/sdk"),
    ("node_ai", "chat"): ("ai, openai-compatible (npm)", "npm", "ai"),
    ("node_ai", "responses"): ("ai, openai (npm)", "npm", "ai"),
    ("node_ai", "messages"): ("ai, anthropic (npm)", "npm", "ai"),
}
WIRES = {"chat": "Chat Completions", "responses": "Responses", "messages": "Messages"}
STORIES = {
    "plain": "plain",
    "streamed": "streamed",
    "tools": "tools",
    "parallel": "parallel tools",
    "forced": "forced tool",
    "picture": "picture",
    "schema": "schema",
    "thinking": "thinking and back",
    "caching": "caching",
    "error": "error",
    "cancel": "cancel",
    "denied": "denied call",
}
AGENTS = {
    "claude": ("Claude Code", "Messages", "@anthropic-ai/claude-code"),
    "codex": ("Codex", "Responses", "@openai/codex"),
}
TASKS = {
    "test_a_task_is_done_as_without_a_gateway": "a task of ten calls",
    "test_of_ten_calls_one_is_denied_one_asked_about_and_one_deferred": (
        "of ten calls one denied, one held, one deferred"
    ),
}
MARKS = {"passed": "yes", "failed": "**no**", "skipped": "not tried"}

_CASE = re.compile(r"::(?P<test>\w+)\[(?P<case>.+)\]")


def text(outcomes: Mapping[str, str], compared: int) -> str:
    """Return the page.

    Args:
        outcomes: What became of each test, by its id.
        compared: How many requests were compared.
    """
    head = HEAD.replace("COMPARED", str(compared)).replace("FAULTS", str(len(FAULTS)))
    return head + "\n".join([*_sdks(outcomes), "", *_agents(outcomes), ""])


def _found(outcomes: Mapping[str, str]) -> Iterator[tuple[str, list[str], str]]:
    for name, outcome in outcomes.items():
        if (match := _CASE.search(name)) is not None:
            yield match["test"], match["case"].split("-"), outcome


def _sdks(outcomes: Mapping[str, str]) -> Iterator[str]:
    done: dict[tuple[str, str, str], str] = {}
    for test, case, outcome in _found(outcomes):
        if test == "test_a_story":
            program, wire, story = case
            done[program, wire, story] = outcome
        elif test == "test_a_denied_call_is_never_seen":
            done[case[0], case[1], "denied"] = outcome
    yield f"| client | version | wire | {' | '.join(STORIES.values())} |"
    yield f"|---|---|---|{'---|' * len(STORIES)}"
    versions = pins()
    for (program, wire), (name, registry, package) in CLIENTS.items():
        marks = [MARKS.get(done.get((program, wire, story), ""), "") for story in STORIES]
        version = versions[registry][package]
        yield f"| {name} | {version} | {WIRES[wire]} | {' | '.join(marks)} |"


def _agents(outcomes: Mapping[str, str]) -> Iterator[str]:
    done: dict[tuple[str, str], list[str]] = {}
    for test, case, outcome in _found(outcomes):
        for agent in AGENTS:
            if test in TASKS and agent in case:
                done.setdefault((agent, test), []).append(outcome)
    yield f"| agent | version | wire | {' | '.join(TASKS.values())} |"
    yield f"|---|---|---|{'---|' * len(TASKS)}"
    for agent, (name, wire, package) in AGENTS.items():
        marks = [_worst(done.get((agent, test), [])) for test in TASKS]
        yield f"| {name} | {pins()['npm'][package]} | {wire} | {' | '.join(marks)} |"


def _worst(outcomes: list[str]) -> str:
    found = [one for one in ("failed", "skipped", "passed") if one in outcomes]
    return MARKS[found[0]] if found else ""
