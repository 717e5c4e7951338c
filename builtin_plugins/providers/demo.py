"""The demo provider: offline, deterministic, no language model. Fixed rules, and no chance.

Every rule looks at the text of the last user message alone. A line that starts with a
slash is a directive and beats the rules; `DIRECTIVES` names them.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil
from typing import Any, get_args

import orjson

from hookgate import (
    Message,
    ModelEvent,
    ModelInfo,
    ModelRequest,
    ProviderError,
    ProviderErrorKind,
    StopEvent,
    SystemText,
    Text,
    TextDelta,
    ToolResultPart,
    ToolUse,
    ToolUseEvent,
    Turn,
    Usage,
    UsageEvent,
)

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


# -- the provider ------------------------------------------------------------------


WHAT_I_AM = "I am hookgate's demo provider: I follow a few fixed rules, and I am no language model."
BREATHE = 64
"""Words after which the event loop gets its turn; a long text must not hold it."""

_WORDS = re.compile(r"\s*\S+|\s+$")
_CONTENT_WORD = re.compile(r"[^\W\d_]{3,}", re.UNICODE)
_QUESTION = re.compile(
    r"\?|^\s*(?:who|what|when|where|which|whose|why|how|do|does|is|are)\b", re.IGNORECASE
)
_COMMON = frozenset(
    re.findall(
        r"\w+",
        "the and for are but not you your was were has have had this that these those with from "
        "what who whom whose which when where why how does did can could would will shall should "
        "about tell please know any there here its his her our their them they then than",
    )
)


class DemoProvider:
    """Answers from the assembled context by fixed rules, streams, and reports usage.

    The same request gives the same answer; only the ids of tool calls differ from call to
    call, since a conversation must not hold one twice. Tokens are counted as one for each
    started four characters.
    """

    def __init__(self, name: str = "demo", models: Sequence[ModelInfo] = ()) -> None:
        self._name = name
        self._models = tuple(models) or (
            ModelInfo(name="demo", context_tokens=200_000, images=True),
            ModelInfo(name="*", context_tokens=200_000, images=True),
        )

    @property
    def name(self) -> str:
        """The name that stands before the slash in ``provider/model``."""
        return self._name

    def models(self) -> Sequence[ModelInfo]:
        """Return the models: ``demo``, and any other name as well."""
        return self._models

    async def stream(self, turn: Turn, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """Answer once, word by word.

        Raises:
            ProviderError: A directive of the message asked for one.
        """
        del turn  # What the model may read stands in the request.
        last, tail = _current(request.messages)
        script = read_script(last.text if last is not None else "")
        if script.fail is not None and script.fail_model in ("", request.model.model):
            raise ProviderError(
                script.fail, f"the message asked for a failure: {script.fail}", provider=self._name
            )
        text, calls = _reply(request, script, last, tail)
        text, stop = _limit(text, request, cut=script.cut)
        if calls and stop.reason == "end":
            stop = StopEvent("tool_use")
        spent = _input_tokens(request)
        written = 0
        yield UsageEvent(Usage(input_tokens=spent))
        for number, word in enumerate(_WORDS.findall(text)):
            if script.pause or number % BREATHE == BREATHE - 1:
                await asyncio.sleep(script.pause)
            written += len(word)
            yield TextDelta(word)
        if script.cut:
            raise ProviderError(
                "cut", "the message asked for a stream that breaks off", provider=self._name
            )
        if stop.reason == "tool_use":
            for number, call in enumerate(calls):
                if script.pause and not text:
                    await asyncio.sleep(script.pause)
                written += len(call.name) + len(orjson.dumps(call.input))
                yield ToolUseEvent(
                    id=f"demo_{request.call_id.removeprefix('call_')}_{number}",
                    name=call.name,
                    input=call.input,
                )
        yield UsageEvent(Usage(input_tokens=spent, output_tokens=ceil(written / 4)))
        yield stop


def _current(messages: Sequence[Message]) -> tuple[Message | None, Sequence[Message]]:
    """Return the last user message and the messages behind it: this turn's rounds of tools."""
    for index in range(len(messages) - 1, -1, -1):
        if messages[index].role == "user" and not messages[index].is_context:
            return messages[index], messages[index + 1 :]
    return None, ()


def _reply(
    request: ModelRequest, script: Script, last: Message | None, tail: Sequence[Message]
) -> tuple[str, Sequence[PlannedCall]]:
    """Return the text and the calls of this round."""
    if script.problem:
        known = "; ".join(f"`{usage}` {meaning}" for usage, meaning in DIRECTIVES.items())
        return f"{WHAT_I_AM} I {script.problem}. My directives: {known}.", ()
    rounds = sum(1 for message in tail if message.tool_uses)
    if rounds < len(script.rounds) and script.rounds[rounds]:
        return script.say or "", script.rounds[rounds]
    if results := _results(tail):
        return script.say or sum_up(results), ()
    if script.context:
        return _show_context(request), ()
    if script.say is not None:
        return script.say, ()
    if last is None:
        return f"{WHAT_I_AM} There is no message for me to answer.", ()
    planned = calls_for(script.rest)
    offered = {tool.name for tool in request.tools}
    if any(call.name == "list_capabilities" for call in planned) and (
        "list_capabilities" not in offered and "discover_capabilities" in offered
    ):
        query = shorten(script.rest, 200)
        planned = [
            PlannedCall("discover_capabilities", {"query": query}, call.at)
            if call.name == "list_capabilities"
            else call
            for call in planned
        ]
    if calls := [call for call in planned if call.name in offered]:
        return "", calls
    return _answer(request, script, planned), ()


def _results(tail: Sequence[Message]) -> list[Finished]:
    uses = {use.id: use for message in tail for use in message.tool_uses}
    finished = []
    for part in (part for message in tail for part in message.tool_results):
        use = uses.get(part.tool_use_id)
        finished.append(
            Finished(
                use.name if use else "the tool",
                use.input if use else {},
                part.text,
                part.is_error,
            )
        )
    return finished


def _answer(request: ModelRequest, script: Script, missing: Sequence[PlannedCall]) -> str:
    spoken = [one for one in request.messages if one.role == "user" and not one.is_context]
    earlier = max(len(spoken) - 1, 0)
    sentences = [f"You said: “{shorten(script.rest, 160)}”."]
    if found := _from_context(request, script.rest):
        sentences.append(f"My context has this on it: “{found}”.")
    if missing:
        names = ", ".join(f"`{name}`" for name in dict.fromkeys(call.name for call in missing))
        sentences.append(f"I would call {names}, but that is not offered to me here.")
    sentences.append(
        f"I was given {_count(earlier, 'earlier turn')}, "
        f"{_count(len(_blocks(request)), 'context block')} and "
        f"{_count(len(request.tools), 'tool')} to work with."
    )
    sentences.append(WHAT_I_AM)
    return " ".join(sentences)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _from_context(request: ModelRequest, question: str) -> str:
    """Return the line of the context that shares most words with a question, or ""."""
    if not _QUESTION.search(question):
        return ""
    asked = _content_words(question)
    if not asked:
        return ""
    needed = min(2, len(asked))
    best, most = "", needed - 1
    for line in _context_lines(request):
        shared = len(asked & _content_words(line))
        if shared > most:
            best, most = line, shared
    return shorten(best, 240)


def _content_words(text: str) -> set[str]:
    return {word.lower() for word in _CONTENT_WORD.findall(text)} - _COMMON


def _context_lines(request: ModelRequest) -> Iterator[str]:
    for piece in _blocks(request):
        yield from (line.strip("-*• \t") for line in piece.text.splitlines() if line.strip())
    last, _ = _current(request.messages)
    for message in request.messages:
        if message is last:
            return
        if message.role == "user" and not message.is_context:
            yield from (line for line in message.text.splitlines() if line.strip())


def _blocks(request: ModelRequest) -> list[SystemText | Text]:
    """Return what the gateway has added, wherever it stands."""
    beside = [part for one in request.messages if one.is_context for part in one.parts]
    return [*request.system, *(part for part in beside if isinstance(part, Text))]


def _show_context(request: ModelRequest) -> str:
    lines = [f"{WHAT_I_AM} This is what I was given to read."]
    for number, piece in enumerate(_blocks(request)):
        is_stable = isinstance(piece, SystemText) and piece.stable
        kind = "stable block" if is_stable else "block"
        lines.append(f"{kind} {number}: {shorten(piece.text, 400)}")
    lines += [
        f"message {number} ({message.role}): {shorten(message.text, 200)}"
        for number, message in enumerate(request.messages)
        if not message.is_context
    ]
    lines.append(f"tools: {', '.join(tool.name for tool in request.tools) or 'none'}")
    return "\n".join(lines)


def _limit(text: str, request: ModelRequest, *, cut: bool) -> tuple[str, StopEvent]:
    """Return `text` within the request's limits, and why it stops where it stops."""
    if cut:
        text = text or "This answer breaks off in the middle of"
    stop = StopEvent("end")
    found = [(place, word) for word in request.stop if word and (place := text.find(word)) >= 0]
    if found:
        place, word = min(found)
        text, stop = text[:place], StopEvent("stop_sequence", matched=word)
    most = request.max_output_tokens * 4
    if len(text) > most:
        text, stop = text[:most], StopEvent("max_tokens")
    return text, stop


def _input_tokens(request: ModelRequest) -> int:
    """Return a token for each started four characters of each piece of the request."""
    total = sum(ceil(len(piece.text) / 4) for piece in request.system)
    for message in request.messages:
        for part in message.parts:
            match part:
                case Text(text):
                    total += ceil(len(text) / 4)
                case ToolUse():
                    total += ceil((len(part.name) + len(orjson.dumps(part.input))) / 4)
                case ToolResultPart():
                    total += ceil(len(part.text) / 4)
                case _:
                    pass  # Pictures and other providers' data: the demo reads neither.
    for tool in request.tools:
        described = len(tool.name) + len(tool.description) + len(orjson.dumps(tool.schema))
        total += ceil(described / 4)
    return total
