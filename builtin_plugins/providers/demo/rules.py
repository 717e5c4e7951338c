"""What the demo provider does with a message: fixed rules, no network, no chance.

Every rule looks at the text of the last user message alone. A line that starts with a
slash is a directive and beats the rules; `DIRECTIVES` names them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, get_args

import orjson

from hookgate import ProviderErrorKind

DIRECTIVES: Mapping[str, str] = {
    "/say TEXT": "answers with exactly TEXT",
    "/call NAME {json}": "calls exactly this tool; several lines are several calls at once",
    "/then": "the calls below it wait for the results of those above",
    "/slow SECONDS [TEXT]": "pauses before each word",
    "/fail KIND [MODEL]": "fails before the first token, at MODEL only where one is named",
    "/cut": "breaks off after some text",
    "/context": "shows what the model has been given to read",
}

KINDS: tuple[str, ...] = get_args(ProviderErrorKind)

MAX_READ = 20_000
"""Characters of a message that the rules look at."""

_NUMBER = r"-?(?:\d+(?:\.\d+)?|\.\d+)"
_ARITHMETIC = re.compile(
    rf"(?<![\w.:/-])[(]*{_NUMBER}[)]*(?: ?(?:\*\*|//|[-+*/%^×÷]) ?[(]*{_NUMBER}[)]*)+(?![\w:/-])"
)
_URL = re.compile(r"https?://[^\s<>\"'`]+")
_DATE = re.compile(r"\b\d{4}-\d{1,2}-\d{1,2}\b|\b\d{1,2}/\d{1,2}/\d{2,4}\b")
_TIME = re.compile(
    r"\bwhat time\b|\btime is it\b|\b(?:current|present|exact) (?:time|date)\b"
    r"|\bwhat(?:'s|’s| is) the (?:time|date|day)\b|\b(?:what|which) (?:day|date)\b"
    r"|\btoday(?:'s|’s) date\b|\btell (?:me )?the time\b",
    re.IGNORECASE,
)
_ZONE = re.compile(r"\b(?:[A-Z][A-Za-z]+(?:/[A-Z][A-Za-z_]+){1,2}|UTC)\b")
_REMEMBER = re.compile(
    r"(?:^|[.!?;,]|\band\b|\bplease\b)\s*(?:please )?remember (?:that )?([^\n]+)", re.IGNORECASE
)
_RECALL = re.compile(
    r"\bwhat do you (?:remember|know) about ([^\n?]+)|(?:^|[.!?;]|\bplease\b) ?recall ([^\n?]+)",
    re.IGNORECASE,
)
_FETCH = re.compile(r"\b(?:fetch|read|get|open|load|download|summari[sz]e)\b", re.IGNORECASE)
_READ_FILE = re.compile(
    r"\b(?:read|open|show) (?:me )?(?:the )?file [\"'`]?([^\s\"'`]+)", re.IGNORECASE
)
_FIND_TOOL = re.compile(
    r"\b(?:find|is there|do you have) (?:me )?(?:a|any) (?:tool|skill|capability)s? "
    r"(?:for|to|that can|which can) ([^\n?]+)",
    re.IGNORECASE,
)
_ABILITIES = re.compile(
    r"\bwhat can you do\b|\b(?:which|what) (?:tools|capabilities|skills)\b|\blist your tools\b",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class PlannedCall:
    """A tool call that a rule or a directive asks for.

    Attributes:
        name: The tool's name.
        input: The arguments; raw text where a directive's JSON is no object.
        at: Where in the message the rule matched; calls go out in this order.
    """

    name: str
    input: dict[str, Any] | str = field(default_factory=dict)
    at: int = 0


@dataclass(slots=True)
class Script:
    """What the directives of a message say.

    Attributes:
        say: The exact text, or None.
        rounds: The calls, one list for each round of tools.
        pause: Seconds before each word.
        fail: The kind of failure, or None.
        fail_model: The only model that fails; "" for all.
        cut: Whether to break off after some text.
        context: Whether to show what was given to read.
        problem: What is wrong with a directive, or "".
        rest: The message without its directives.
    """

    say: str | None = None
    rounds: list[list[PlannedCall]] = field(default_factory=lambda: [[]])
    pause: float = 0.0
    fail: ProviderErrorKind | None = None
    fail_model: str = ""
    cut: bool = False
    context: bool = False
    problem: str = ""
    rest: str = ""


def read_script(text: str) -> Script:
    """Read the directives of a message; lines that are none end up in `Script.rest`.

    ``/say`` takes the rest of its line and the lines below it, up to the next directive.
    """
    script = Script()
    rest: list[str] = []
    lines_said: list[str] | None = None
    for line in text.splitlines():
        word, _, tail = line.strip().partition(" ")
        if word == "/say":
            lines_said = [tail.strip()]
        elif (apply := _DIRECTIVES.get(word)) is not None:
            script.say = script.say if lines_said is None else "\n".join(lines_said)
            lines_said = None
            apply(script, tail.strip())
        elif lines_said is not None:
            lines_said.append(line)
        else:
            rest.append(line)
    if lines_said is not None:
        script.say = "\n".join(lines_said)
    script.rest = "\n".join(rest).strip()
    return script


def _call(script: Script, tail: str) -> None:
    name, _, raw = tail.partition(" ")
    raw = raw.strip()
    if not name:
        script.problem = "found `/call` without a tool, expected `/call NAME {json}`"
        return
    arguments: dict[str, Any] | str = {}
    if raw:
        try:
            parsed = orjson.loads(raw)
        except orjson.JSONDecodeError:
            parsed = None
        arguments = parsed if isinstance(parsed, dict) else raw
    script.rounds[-1].append(PlannedCall(name, arguments))


def _then(script: Script, _tail: str) -> None:
    script.rounds.append([])


def _slow(script: Script, tail: str) -> None:
    number, _, text = tail.partition(" ")
    try:
        script.pause = min(max(float(number), 0.0), 3600.0)
    except ValueError:
        script.problem = f"found `/slow {number[:40]}`, expected a number of seconds"
    if text.strip():
        script.say = text.strip()


def _fail(script: Script, tail: str) -> None:
    kind, _, model = tail.partition(" ")
    for known in KINDS:
        if kind == known:
            script.fail, script.fail_model = known, model.strip()  # type: ignore[assignment]  # checked one line above
            return
    script.problem = f"found `/fail {kind[:40]}`, expected one of {', '.join(KINDS)}"


def _cut(script: Script, tail: str) -> None:
    script.cut = True
    script.say = tail or script.say


def _context(script: Script, _tail: str) -> None:
    script.context = True


_DIRECTIVES: dict[str, Callable[[Script, str], None]] = {
    "/call": _call,
    "/then": _then,
    "/slow": _slow,
    "/fail": _fail,
    "/cut": _cut,
    "/context": _context,
}


# -- rules -------------------------------------------------------------------


def calls_for(text: str) -> list[PlannedCall]:
    """Return the calls that the rules read out of `text`, in the order of the text."""
    text = re.sub(r"[ \t]+", " ", text[:MAX_READ])
    found = [call for rule in _RULES for call in rule(text)]
    unique: list[PlannedCall] = []
    for call in sorted(found, key=lambda call: call.at):
        if not any(call.name == one.name and call.input == one.input for one in unique):
            unique.append(call)
    return unique


def _blank(pattern: re.Pattern[str], text: str) -> str:
    """Return `text` with what matches replaced by as many letters: nothing moves."""
    return pattern.sub(lambda match: "u" * len(match.group()), text)


def _arithmetic(text: str) -> list[PlannedCall]:
    text = _blank(_DATE, _blank(_URL, text))
    calls = []
    for match in _ARITHMETIC.finditer(text):
        expression = _balance(match.group()).strip()
        for sign, plain in (("×", "*"), ("÷", "/"), ("^", "**")):
            expression = expression.replace(sign, plain)
        calls.append(PlannedCall("calculate", {"expression": expression}, match.start()))
    return calls


def _balance(expression: str) -> str:
    while expression.count("(") > expression.count(")") and expression.startswith("("):
        expression = expression[1:]
    while expression.count(")") > expression.count("(") and expression.endswith(")"):
        expression = expression[:-1]
    return expression


def _clock(text: str) -> list[PlannedCall]:
    match = _TIME.search(text)
    if match is None:
        return []
    zone = _ZONE.search(_blank(_URL, text))
    return [PlannedCall("clock", {"timezone": zone.group()} if zone else {}, match.start())]


def _remember(text: str) -> list[PlannedCall]:
    return [
        PlannedCall("remember", {"text": match.group(1).strip().rstrip(".!")}, match.start())
        for match in _REMEMBER.finditer(text)
    ]


def _recall(text: str) -> list[PlannedCall]:
    return [
        PlannedCall(
            "recall",
            {"query": (match.group(1) or match.group(2)).strip().rstrip(".!")},
            match.start(),
        )
        for match in _RECALL.finditer(text)
    ]


def _fetch(text: str) -> list[PlannedCall]:
    if not _FETCH.search(_blank(_URL, text)):
        return []
    return [
        PlannedCall("http_get", {"url": match.group().rstrip(".,;:!?)")}, match.start())
        for match in _URL.finditer(text)
    ]


def _read_file(text: str) -> list[PlannedCall]:
    return [
        PlannedCall("read_file", {"path": match.group(1).rstrip(".,;:!?")}, match.start())
        for match in _READ_FILE.finditer(text)
    ]


def _discover(text: str) -> list[PlannedCall]:
    if match := _FIND_TOOL.search(text):
        query = match.group(1).strip().rstrip(".!")
        return [PlannedCall("discover_capabilities", {"query": query}, match.start())]
    if match := _ABILITIES.search(text):
        return [PlannedCall("list_capabilities", {}, match.start())]
    return []


_RULES: tuple[Callable[[str], list[PlannedCall]], ...] = (
    _arithmetic,
    _clock,
    _remember,
    _recall,
    _fetch,
    _read_file,
    _discover,
)


# -- results -----------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Finished:
    """A call and what came back for it."""

    name: str
    input: Mapping[str, Any] | str
    content: str
    is_error: bool = False


def sum_up(results: Sequence[Finished]) -> str:
    """Return one line that says what the tools came to."""
    return " ".join(_sentence(result) for result in results)


def _sentence(result: Finished) -> str:
    content = shorten(result.content, 400)
    arguments = result.input if not isinstance(result.input, str) else {}
    if result.is_error:
        sentence = f"`{result.name}` did not work: {content}"
    elif result.name == "calculate" and "=" not in content:
        sentence = f"{arguments.get('expression', 'The result')} = {content}"
    elif result.name == "calculate":
        sentence = content
    elif result.name == "clock":
        sentence = f"The time is {content}"
    elif result.name == "remember":
        sentence = content[:1].upper() + content[1:]
    elif result.name == "recall":
        sentence = f"What I find in my memory: {content}" if content else "I remember nothing"
    else:
        sentence = f"`{result.name}` returned: {content}" if content else f"`{result.name}` ran"
    return sentence if sentence.endswith((".", "!", "?")) else f"{sentence}."


def shorten(text: str, limit: int) -> str:
    """Return `text` on one line, cut to `limit` characters with a mark."""
    line = " ".join(text.split())
    return line if len(line) <= limit else f"{line[: limit - 1]}…"
