"""What a decision on a tool call costs, by rules of several sorts, in microseconds.

``python -m benchmarks.policy.speed [--peers PYTHON] [--quick]``. "judge" is `Judge.judge` by
itself; "path" is `ToolCalls.verdict` in a gateway with the policy plugin: copying the arguments,
dispatching `before_tool_call` with its limits, judging, and merging the verdicts. Each call has
arguments of its own, so that nothing of a condition is known beforehand. No rule holds for the
call, which is the usual case and the longest way; where one does, that is said. Times are
of the processor, and those of the best of several rounds, in which the sorts take turns: what
else runs on the machine only adds to them.

PYTHON is an interpreter that has ``cedarpy`` and ``agent-governance-toolkit-core`` (or
$HOOKGATE_POLICY_PEERS). They decide by a hundred rules of like meaning, in turns with the above;
see ``_peers.py``. They are not the same thing: Cedar answers permit or forbid from given
facts; the toolkit's evaluator takes the first rule that matches, and copies the context for its
audit; here flags, taint, history and undecidable conditions are looked at too, the strictest of
all rules counts, and what is undeclared is not taken for false.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import tempfile
import time
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.report import Figure, report
from hookgate.builtin_plugins.policy.judge.engine import Engine
from hookgate.builtin_plugins.policy.judge.facts import Facts, History
from hookgate.builtin_plugins.policy.judge.judging import Judge
from hookgate.builtin_plugins.policy.plugin import Plugin
from hookgate.builtin_plugins.policy.rules.files import read_text_of_rules
from hookgate.builtin_plugins.policy.settings import PolicySettings
from hookgate.core.domain.descriptors import Flags
from hookgate.core.domain.messages import Message, Provenance, ToolUse
from hookgate.core.domain.models import ModelRef
from hookgate.core.domain.parts import Text
from hookgate.core.domain.tools import Tool, ToolCall
from hookgate.core.domain.turn import Address, Agent, Origin, Principal, SessionKey, Turn, TurnPlan
from hookgate.core.registry.snapshots import Snapshot
from hookgate.core.settings.schema import Settings
from hookgate.core.turn.tools.call import ToolCalls
from hookgate.gateway import Gateway

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

PEERS = "HOOKGATE_POLICY_PEERS"
RULES = 100
CALLED = "tool_50"
REMEMBERED = 1000
"""Calls that were allowed before, in this session and in others."""

SENDS = "{name: r%d, effect: deny, reason: no, match: {flags: {%s: true}, tainted: true}}"


def flag_rules(count: int) -> list[str]:
    names = ("sends_externally", "executes_privileged", "creates_autonomous_actions")
    return [SENDS % (number, names[number % len(names)]) for number in range(count)]


def holding_rules(count: int) -> list[str]:
    match = "{flags: {writes_persistent_state: false}}"
    return [f"{{name: h{n}, effect: allow, match: {match}}}" for n in range(count)]


def tool_rules(count: int) -> list[str]:
    return [
        f"{{name: t{n}, effect: deny, reason: no, match: {{tool: tool_{n}}}, "
        f'when: "args.amount > {1000 + n}"}}'
        for n in range(count)
    ]


def circumstance_rules(count: int) -> list[str]:
    matches = ('channel: "chan-%d*"', 'peer: "stranger-%d"', 'agent: "agent-%d"')
    return [
        f"{{name: c{n}, effect: deny, reason: no, match: {{{matches[n % 3] % n}}}}}"
        for n in range(count)
    ]


def condition_rules(count: int) -> list[str]:
    return [
        f'{{name: w{n}, effect: deny, reason: no, when: "args.amount > {1000 + n}"}}'
        for n in range(count)
    ]


def sequence_rules(count: int) -> list[str]:
    found = []
    for n in range(count):
        part = f"after: {{tool: vault_{n}}}"
        if n % 2:
            part = f"match: {{tool: 'tool_5*'}}, more_than: {{calls: {50 + n}, within: 1m}}"
        found.append(f"{{name: s{n}, effect: deny, reason: no, {part}}}")
    return found


def mixed_rules() -> list[str]:
    """Return a hundred rules as a house would have them."""
    texts = (
        "!args.to.endsWith('.com')",
        "size(args.text) > 5000",
        "args.amount > 500",
        "turn.tainted && args.to.contains('+')",
    )
    general = [
        f'{{name: g{n}, effect: ask, reason: no, when: "{texts[n % len(texts)]}"}}'
        for n in range(12)
    ]
    tools = [
        f"{{name: x{n}, effect: deny, reason: no, match: {{tool: tool_{n * 2}}}, "
        f'when: "{texts[n % len(texts)]}"}}'
        for n in range(40)
    ]
    return [*flag_rules(20), *circumstance_rules(22), *general, *tools, *sequence_rules(6)]


SORTS: Mapping[str, Sequence[str]] = {
    "no rules": (),
    "1 flag rule": flag_rules(1),
    "100 flag-only": flag_rules(RULES),
    "100 flag-only that hold": holding_rules(RULES),
    "100 tool-specific, CEL": tool_rules(RULES),
    "100 of circumstances": circumstance_rules(RULES),
    "100 CEL, all looked at": condition_rules(RULES),
    "100 mixed": mixed_rules(),
}

GOALS = {"no rules": 5.0, "1 flag rule": 10.0, "100 flag-only": 10.0}
"""Microseconds, of p50; p99 of a hundred rules is to stay below `GOAL`."""
GOAL = 150.0


# -- calls ------------------------------------------------------------------------------

FLAGS = Flags.none()


def rule_engine(rules: Sequence[str]) -> Engine:
    text = "rules:\n" + "".join(f"  - {rule}\n" for rule in rules) if rules else "rules: []\n"
    reading = read_text_of_rules(text, "bench.yaml")
    if reading.failed:
        raise SystemExit("\n".join(map(str, reading.problems)))
    return Engine(reading.found)


def some_turn(tool: Tool) -> Turn:
    model = ModelRef("demo", "demo")
    message = Message(role="user", parts=(Text("pay the bill"),))
    turn = Turn(
        session=SessionKey("main", "web", "local", "ann"),
        agent=Agent(name="main", models=(model,)),
        address=Address("web", "local", "ann"),
        principal=Principal.owner(),
        origin=Origin(provenance=Provenance.EXTERNAL_USER),
        message=message,
        messages=[message],
        snapshot=Snapshot(tools={tool.name: tool}),
        plan=TurnPlan(models=(model,)),
    )
    turn.offered = {tool.name: tool}
    return turn


def some_tool() -> Tool:
    return Tool(
        name=CALLED, description="Pays.", schema={"type": "object"}, flags=FLAGS, plugin="bench"
    )


def some_arguments(number: int) -> dict[str, object]:
    return {"amount": 5, "to": f"peer-{number}@example.com", "text": "for the bill of May"}


def some_history() -> History:
    """Return calls of the last hour, one in ten of them of the session that is asked for."""
    history = History()
    for number in range(REMEMBERED):
        own = number % 10 == 0
        peer = "ann" if own else f"p{number % 7}"
        earlier = Facts(
            tool=f"tool_{number % 60}",
            flags=FLAGS,
            plugin="bench",
            channel="web",
            peer=peer,
            session=f"main:web:local:{peer}",
            turn=f"turn-{number // 20}",
        )
        history.add(float(number), earlier)
    return history


# -- times --------------------------------------------------------------------------------


def judging(engine: Engine, number: int) -> list[int]:
    """Return the nanoseconds of each of `number` judgements by themselves."""
    judge, history = Judge(PolicySettings(), engine), some_history()
    tool = some_tool()
    turn = some_turn(tool)
    calls = [
        ToolCall(id=f"c{place}", tool=tool, arguments=some_arguments(place), index=place)
        for place in range(number)
    ]
    now = float(REMEMBERED)
    for call in calls[:50]:
        judge.judge(turn, call, history, now)
    taken = []
    for call in calls:
        start = time.thread_time_ns()
        judge.judge(turn, call, history, now)
        taken.append(time.thread_time_ns() - start)
    return taken


async def on_the_path(rules: Path, number: int) -> list[int]:
    """Return the nanoseconds of each of `number` verdicts of a gateway."""
    plugin = Plugin(PolicySettings(rules=(rules,), pin_tools="off"))
    settings = Settings.model_validate(
        # Verdicts that never wait hold the loop, and a gateway would warn of that.
        {"plugins": {"entry_points": False}, "log": {"level": "error"}}
    )
    async with Gateway(settings, builtin=(), plugins=[plugin]) as gateway:
        calls = ToolCalls(gateway.host)
        turn = some_turn(some_tool())
        uses = [
            ToolUse(id=f"c{place}", name=CALLED, input=some_arguments(place))
            for place in range(number)
        ]
        for use in uses[:50]:
            await calls.verdict(turn, use)
        taken = []
        for use in uses:
            start = time.thread_time_ns()
            await calls.verdict(turn, use)
            taken.append(time.thread_time_ns() - start)
    return taken


def peers(python: str, number: int) -> dict[str, list[int]]:
    """Return the nanoseconds of the other engines' decisions."""
    script = Path(__file__).with_name("_peers.py")
    command = [python, "-I", str(script), str(number)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"{python} could not run the other engines:\n{done.stderr[-2000:]}")
    found: dict[str, list[int]] = json.loads(done.stdout)
    return found


def measure(
    folder: Path, rounds: int, number: int, python: str | None
) -> dict[str, list[list[int]]]:
    """Return the times of each round, by name."""
    times: dict[str, list[list[int]]] = defaultdict(list)
    engines = {name: rule_engine(rules) for name, rules in SORTS.items()}
    for name, rules in SORTS.items():
        lines = "".join(f"  - {rule}\n" for rule in rules)
        path = folder / f"{name}.yaml"
        path.write_text(f"rules:\n{lines}" if lines else "rules: []\n", encoding="utf-8")
    for _ in range(rounds):
        for name, engine in engines.items():
            times[f"judge, {name}"].append(judging(engine, number))
            path = folder / f"{name}.yaml"
            times[f"path, {name}"].append(asyncio.run(on_the_path(path, number)))
        if python:
            for name, taken in peers(python, number).items():
                times[name].append(taken)
    return times


def at(rounds: Sequence[Sequence[int]], share: float) -> float:
    """Return the microseconds that `share` of the times stay within, in the best round."""
    return min(sorted(times)[int(share * len(times))] for times in rounds) / 1000


def figures_of(times: Mapping[str, Sequence[Sequence[int]]]) -> list[Figure]:
    """Return the figures, with their goals."""
    figures = []
    for name, taken in times.items():
        part, _, sort = name.partition(", ")
        judged = part == "judge"
        ours = judged or part == "path"
        most = GOAL if ours and sort.startswith("100") else None
        goal = GOALS.get(sort) if judged else None
        figures.append(Figure(name=f"{name}, p50", value=at(taken, 0.5), unit="us", goal=goal))
        figures.append(Figure(name=f"{name}, p99", value=at(taken, 0.99), unit="us", goal=most))
    for name, ours_name in (
        ("cedarpy, 100 all looked at", "judge, 100 CEL, all looked at"),
        ("cedarpy, 100 tool-specific", "judge, 100 tool-specific, CEL"),
        ("agent-governance-toolkit, 100 all looked at", "judge, 100 CEL, all looked at"),
        ("agent-governance-toolkit, 100 tool-specific", "judge, 100 tool-specific, CEL"),
    ):
        if name in times:
            figures.append(
                Figure(
                    name=f"{ours_name}, p50",
                    value=at(times[ours_name], 0.5) / at(times[name], 0.5),
                    unit="ratio",
                    against=name,
                    goal=1.0,
                )
            )
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.policy.speed",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--peers", metavar="PYTHON", default=os.environ.get(PEERS))
    parser.add_argument("--quick", action="store_true", help="a few seconds, less exact")
    chosen = parser.parse_args()
    if not chosen.peers:
        print(f"no interpreter with the other engines is given, with --peers or ${PEERS}")
    rounds, number = (2, 500) if chosen.quick else (16, 500)
    with tempfile.TemporaryDirectory() as folder:
        times = measure(Path(folder), rounds, number, chosen.peers)
    report("Decisions on tool calls", figures_of(times))


if __name__ == "__main__":
    main()
