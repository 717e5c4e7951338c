"""A hookgate plugin: cards on security have a fixed form and a signature, or are not shown."""

from __future__ import annotations

import asyncio
import hmac
import json
import os
import re
import sys
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer
from pydantic import Field

from hookgate import Card, Finding, Rejected, Section, StartError, hookimpl
from hookgate.kit.commands import JsonOption, state_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from hookgate import Host

KEY = "CARD_SIGNING_KEY"
KEY_CHARS = 32
"""The shortest key, in characters."""

SIGNATURE = re.compile(r"signature: hmac-sha256:([0-9a-f]{64})")
HEADING = re.compile(r"^## +(.+?) *$", re.MULTILINE)


class SignedCards(Section):
    """``[plugin.signed_cards]``."""

    prefix: str = "security-"
    """How the ids of the cards begin that must be signed."""
    headings: tuple[str, ...] = ("Purpose", "Rules", "Contact")
    """The headings of the second level that such a card has, in this order, and no other."""
    key_env: str = Field(default=KEY, pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")
    """The secret that holds the key: an environment variable, or a file in `keys`."""


class Plugin:
    """Judges the cards that the settings name, and leaves all others alone."""

    Settings = SignedCards

    def __init__(self, settings: SignedCards) -> None:
        self.settings = settings
        self.key = ""

    @hookimpl
    @asynccontextmanager
    async def lifespan(self, host: Host) -> AsyncIterator[None]:
        """Take the key; without one, no card could be judged, so the gateway does not start."""
        # Secrets may be files: not on the event loop.
        key = await asyncio.to_thread(host.secrets.get, self.settings.key_env) or ""
        self.key = checked_key(key, self.settings.key_env)
        yield

    # First: the signature is one of the text as it was written, not as others cleaned it.
    @hookimpl(tryfirst=True)
    def sanitize_card(self, card: Card) -> Card | Rejected | None:
        """Return a signed card without its signature, and reject one that is wrong."""
        if not card.id.casefold().startswith(self.settings.prefix.casefold()):
            return None
        body, signed = parts_of(card.text)
        findings = [*self.wrong_with_form(body), *self.wrong_with_signature(card, body, signed)]
        if findings:
            reason = "; ".join(finding.note for finding in findings)
            return Rejected(reason=reason, findings=tuple(findings))
        return replace(card, text=body.rstrip() + "\n")

    def wrong_with_form(self, body: str) -> list[Finding]:
        """Return what the form lacks: the headings in their order, with text below each."""
        found = list(HEADING.finditer(body))
        expected = list(self.settings.headings)
        if [match[1] for match in found] != expected:
            note = f"expected the headings {', '.join(expected)}, in this order"
            return [Finding(rule="form", severity="high", end=len(body), note=note)]
        ends = [*(match.start() for match in found[1:]), len(body)]
        return [
            Finding(
                rule="form",
                severity="high",
                start=match.start(),
                end=match.end(),
                note=f"there is nothing below the heading {match[1]}",
            )
            for match, end in zip(found, ends, strict=True)
            if not body[match.end() : end].strip()
        ]

    def wrong_with_signature(self, card: Card, body: str, signed: str) -> list[Finding]:
        """Return what is wrong with the last line."""
        if not signed:
            note = "expected `signature: hmac-sha256:` and 64 hexadecimal digits as the last line"
        elif not hmac.compare_digest(signed, signature(replace(card, text=body), self.key)):
            note = "the signature is not that of this card"
        else:
            return []
        end = len(card.text)
        return [
            Finding(rule="signature", severity="high", start=len(body), end=end, note=note),
        ]


# -- signing -----------------------------------------------------------------


def parts_of(text: str) -> tuple[str, str]:
    """Return the text above the signature, and the signature; "" where there is none."""
    body, _, last = text.rstrip().rpartition("\n")
    match = SIGNATURE.fullmatch(last.strip())
    return (text, "") if match is None else (body, match[1])


def sign(card: Card, key: str) -> str:
    """Return the text of `card` with its signature in the last line."""
    return f"{card.text.rstrip()}\n\nsignature: hmac-sha256:{signature(card, key)}\n"


def signature(card: Card, key: str) -> str:
    """Return the signature of all that a card says. White space at the end does not count."""
    said = [card.id, card.name, card.description, card.text.rstrip()]
    # JSON tells the parts from each other: "a" and "bc" are not "ab" and "c".
    return hmac.new(key.encode(), json.dumps(said).encode(), "sha256").hexdigest()


def checked_key(key: str, name: str) -> str:
    """Return `key` without white space around it.

    Raises:
        StartError: There is none, or it is too short.
    """
    key = key.strip()
    if len(key) < KEY_CHARS:
        raise StartError(
            f"the key {name}: found {len(key)} characters, expected at least {KEY_CHARS}; "
            "make one with `openssl rand -hex 32`"
        )
    return key


def command(
    ctx: typer.Context,
    card: Annotated[str, typer.Argument(metavar="ID", help="The card's id.")],
    name: Annotated[str, typer.Option(help="Its name, as in its frontmatter.")] = "",
    description: Annotated[str, typer.Option(help="Its description, likewise.")] = "",
    as_json: JsonOption = False,
) -> None:
    """Sign the text of a card, which is read from standard input.

    Example:
        hookgate cards sign security-incidents < body.md
    """
    key = checked_key(os.environ.get(KEY, ""), KEY)
    signed = sign(Card(id=card, name=name, description=description, text=sys.stdin.read()), key)
    state_of(ctx).show(
        {"text": signed},
        lambda console: console.print(signed, end="", markup=False, soft_wrap=True),
    )
