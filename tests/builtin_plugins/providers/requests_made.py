"""One request with everything in it, for the golden tests of both directions."""

from __future__ import annotations

from typing import Any

from hookgate.core.domain.messages import Message, Opaque, ToolResultPart, ToolUse
from hookgate.core.domain.models import ModelRef, ModelRequest, SystemText
from hookgate.core.domain.parts import Audio, Document, Image, Text
from hookgate.core.domain.tools import Tool

CALCULATE = Tool(
    name="calculate",
    description="Does sums.",
    schema={
        "type": "object",
        "properties": {"expression": {"type": "string"}},
        "required": ["expression"],
    },
)
CLOCK = Tool(name="clock", description="Tells the time.", schema={"type": "object"})


def user(*parts: Any) -> Message:
    return Message(role="user", parts=tuple(Text(p) if isinstance(p, str) else p for p in parts))


def assistant(*parts: Any) -> Message:
    return Message(
        role="assistant", parts=tuple(Text(p) if isinstance(p, str) else p for p in parts)
    )


def results(*parts: ToolResultPart) -> Message:
    return Message(role="tool", parts=parts)


def request(*messages: Message, **more: Any) -> ModelRequest:
    return ModelRequest(model=ModelRef("acme", "big"), messages=messages, **more)


FULL = request(
    user("hello"),
    assistant("hi"),
    user("what is 17*23, and what time is it?", Image(media_type="image/png", data="iVBORw0KGgo=")),
    assistant(
        Opaque(provider="acme", data={"type": "thinking", "thinking": "hm", "signature": "s1"}),
        Opaque(provider="other", data={"type": "thinking", "thinking": "x", "signature": "s2"}),
        "I will look.",
        ToolUse(id="call.a:0", name="calculate", input={"expression": "17*23"}),
        ToolUse(id="b", name="clock", input='{"zone": '),
    ),
    results(
        ToolResultPart(tool_use_id="call.a:0", content="391"),
        ToolResultPart(tool_use_id="b", content="no such zone", is_error=True),
    ),
    user(Text("and now?", "acme/cards/now")),
    system=(
        SystemText(text="You are kind.", stable=True, source="core/soul"),
        SystemText(text="The house rules.", stable=True, source="acme/other/rules"),
        SystemText(text="It rains.", source="acme/recall acme/cards/rain"),
        SystemText(text="  "),
    ),
    tools=(CALCULATE, CLOCK),
    max_output_tokens=512,
    temperature=0.5,
    stop=("END",),
    options={"top_p": 0.9},
)

PICTURE = Image(media_type="image/png", data="iVBORw0KGgo=")
PAPER = Document(media_type="application/pdf", data="aGk=", name="a.pdf")
SOUND = Audio(media_type="audio/mpeg", data="aGk=")
SHOWN = request(
    user("look"),
    assistant(
        ToolUse(id="a", name="clock", input={}),
        ToolUse(id="b", name="clock", input={}),
    ),
    results(
        ToolResultPart(tool_use_id="a", content=(Text("Here:"), PICTURE, PAPER, SOUND)),
        ToolResultPart(tool_use_id="b", content="noon"),
    ),
)
"""A request with a result of parts."""
