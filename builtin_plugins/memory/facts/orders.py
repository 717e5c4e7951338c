"""What somebody asks for once and for all: `always answer in French`, `never use emojis`."""

from __future__ import annotations

import re
from datetime import datetime

from hookgate.builtin_plugins.memory.facts.clauses import ME, Assertion
from hookgate.builtin_plugins.memory.facts.grammar import EXPRESSIONS, vocabulary

STANDING = ("answers in", "wants")
"""The relations of what was asked for so. They hold for every answer, whatever it is about."""

_KNOWN = vocabulary()


def order_in(sentence: str, at: datetime) -> list[Assertion]:
    """Return the standing order that a sentence gives or takes back; nothing where it does neither.

    What is asked for is how to answer. An order to do something else is not kept, nor one that
    speaks of what is at hand.
    """
    if match := EXPRESSIONS["none_of"].fullmatch(sentence):
        return [_order("wants", f"never use {match['what'].casefold()}")]
    match = EXPRESSIONS["order"].fullmatch(sentence)
    if match is None:
        return []
    never, behind = (match["never"] or "").casefold(), (match["behind"] or "").casefold()
    what = _what(match, stops=never == "stop")
    back = behind in {"again", "any more", "anymore"}
    said = match["before"] or match["excused"] or behind or never in {"never", "don't ever"}
    if never or what.startswith("keep "):
        said = said or EXPRESSIONS["whole"].search(what)
    language = EXPRESSIONS["in_language"].fullmatch(what)
    if language is not None and never == "stop":
        said = back = True
    if not what or not said or EXPRESSIONS["here"].search(what):
        return []
    advises = (match["asking"] or "").casefold().startswith("you ") and language is None
    if advises and EXPRESSIONS["whole"].search(what) is None:
        return []  # `you should always use a helmet` speaks of no answers
    if never and what.startswith("ask "):
        return []  # whom to ask is for policy to say, and not to be forgotten once
    until = at if match["excused"] or (back and (never or language is None)) else None
    if language is not None and (until or not never):
        return [_order("answers in", language["language"].capitalize(), until)]
    if until is not None:
        return [_order("wants", f"{word} {what}", until) for word in ("always", "never")]
    return [_order("wants", f"{'never' if never else 'always'} {what}")]


def _order(relation: str, value: str, until: datetime | None = None) -> Assertion:
    return Assertion(
        subject=ME,
        relation=relation,
        value=value,
        mode="holds" if until is None else "ended",
        valid_to=until,
        known=until is not None,
        pattern=ORDER,
    )


ORDER = "order"
"""The name of what finds these."""


def _what(match: re.Match[str], *, stops: bool) -> str:
    """Return what is to be done, as it stands behind `always`."""
    what: str = match["what"].strip(" ,")
    if match["gerund"]:
        verb, _, rest = what.partition(" ")
        base = _KNOWN.gerunds.get(verb.casefold(), "")
        if not stops or base not in _KNOWN.words["orders"]["verbs"]:
            return ""
        what = f"{base} {rest}"
    return what[:1].lower() + what[1:]
