"""What is said at the end of a turn, and what a message becomes that is still to be sent."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hookgate import Address, Choice, Content, Message, Turn
from hookgate.builtin_plugins.channels.book.deliveries import Delivery
from hookgate.channels import messages_of

if TYPE_CHECKING:
    from hookgate.builtin_plugins.channels.hosting import Hosted

INTERRUPTED = (
    "The gateway was restarted while it was answering your message, and the answer is lost. What "
    "it had begun may have been done. Please send your message again if you still want an answer."
)

TELLING = frozenset(("refused", "budget_exceeded", "rate_limited", "stopping"))
"""Codes of errors whose words are meant for whoever has asked."""


def said_of(turn: Turn) -> str:
    """Return what is said at the end of a turn: its answer, and why it is not whole."""
    if turn.ending == "done" or turn.error is None:
        return turn.answer
    code = turn.error.code
    told = str(turn.error) if turn.ending == "refused" or code in TELLING else f"code {code}"
    why = f"This message could not be answered: {told}"
    if turn.ending == "cancelled":
        why = "The answer was broken off. Please send your message again if you still want one."
    return f"{turn.answer}\n\n{why}" if turn.answer.strip() else why


def kept_answer(messages: list[Message]) -> str | None:
    """Return the answer of a turn from its messages; None where it had none yet."""
    last = messages[-1] if messages else None
    if last is None or last.role != "assistant" or last.tool_uses:
        return None
    return last.text


def deliveries_of(
    hosted: Hosted,
    address: Address,
    content: Content,
    *,
    batch: str,
    thread: str = "",
    choices: tuple[Choice, ...] = (),
    live: str = "",
    shown: str = "",
    expires: int = 0,
) -> list[Delivery]:
    """Return the messages that say `content`, in order.

    Args:
        hosted: The channel.
        address: To whom.
        content: What is said.
        batch: What names them together.
        thread: What it answers.
        choices: What the last one offers.
        live: The id of a message that the first one changes; "" for none.
        shown: What that message shows already.
        expires: From when on they are of no use; 0 for never.
    """
    features = hosted.channel.features
    messages = messages_of(content, features)
    found = []
    for number, message in enumerate(messages):
        first, last = number == 0, number == len(messages) - 1
        if first and live and message == shown:
            continue
        edits = live if first and isinstance(message, str) else ""
        found.append(
            Delivery(
                address=address,
                content=message,
                thread=thread if features.threads else "",
                choices=choices if last and features.choices else (),
                edits=edits,
                batch=batch,
                expires=expires,
            )
        )
    return found
