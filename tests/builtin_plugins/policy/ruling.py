"""What the tests of rules are made with."""

from __future__ import annotations

from typing import Any

from hookgate.builtin_plugins.policy.judge.engine import Engine, Judgement
from hookgate.builtin_plugins.policy.judge.facts import Facts, History
from hookgate.builtin_plugins.policy.rules.files import read_text_of_rules
from hookgate.builtin_plugins.policy.rules.model import Rule
from hookgate.core.domain.descriptors import Flags


def rules_of(text: str) -> tuple[Rule, ...]:
    reading = read_text_of_rules(text, "rules.yaml")
    assert not reading.failed, "\n".join(map(str, reading.problems))
    return reading.found


def engine_of(text: str) -> Engine:
    return Engine(rules_of(text))


def facts(tool: str = "send", *, flags: dict[str, bool] | None = None, **more: Any) -> Facts:
    """A call of a tool that declares all flags false but for `flags`."""
    declared = Flags.from_mapping({**Flags.none().to_json(), **(flags or {})})
    return Facts(tool=tool, flags=more.pop("declared", declared), session="s", turn="t", **more)


def judged(text: str, call: Facts, *earlier: Facts, now: float = 100.0) -> Judgement:
    history = History()
    for one in earlier:
        history.add(now - 10, one)
    return engine_of(text).judge(call, history, now)
