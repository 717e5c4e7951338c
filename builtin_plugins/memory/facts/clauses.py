"""From a message to its clauses, each taken apart: whom it speaks of, and what it says of them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from hookgate.builtin_plugins.memory.facts.grammar import (
    EXPRESSIONS,
    SURE,
    TAIL,
    UNSURE,
    grammar,
    may_hold,
    vocabulary,
)
from hookgate.builtin_plugins.memory.facts.times import When, find_time

MAX_TEXT = 3000
"""Characters that somebody types. A longer message carries something pasted: only its first
paragraph is read."""

MAX_PARAGRAPH = 500
MAX_SENTENCE = 300
MAX_SENTENCES = 40

_HIDDEN = "\ufffc"
"""Stands where something was left out, and for several who were named together; no pattern fits
across it."""

_KNOWN = vocabulary()


@dataclass(frozen=True, slots=True)
class Ref:
    """Whom or what a statement speaks of.

    Attributes:
        kind: `speaker` says I; `listener` is spoken to; `role` is somebody's (`my dog`), of
            `owner`; `name` goes by a name; `pronoun` was spoken of before; `last` is what was
            learned last; `value` is whoever something is said of that is wrong.
        text: The role, the name or the pronoun.
        owner: Whose role it is.
    """

    kind: Literal["speaker", "listener", "role", "name", "pronoun", "last", "value"]
    text: str = ""
    owner: Ref | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Assertion:
    """Something that a sentence says of somebody.

    Attributes:
        subject: Of whom.
        relation: Of ``relations.toml``, or a role; "" where a correction leaves it open.
        value: What; "" where it has no name yet.
        mode: `holds`; `ended`, it did and does no more; `never`, it does not and did not.
        correction: Whether it takes the place of what was said before, which was wrong.
        confidence: How surely the words say so, from 0 to 1.
        valid_from: Since when it holds, in UTC; None where nobody said.
        valid_to: Until when; None where it goes on or nobody said.
        dated: The time in words, as precise as it was said: `since 2019`.
        ends_value: The other value of a relation that ends by this.
        instead_of: The value that this is a correction of.
        over: Whether by it ends what holds of its subject, beside what is lasting.
        known: Whether it says something only of what is known already.
        pattern: The name of the pattern that found it.
    """

    subject: Ref
    relation: str
    value: str
    mode: Literal["holds", "ended", "never"] = "holds"
    correction: bool = False
    confidence: float = SURE
    valid_from: datetime | None = None
    valid_to: datetime | None = None
    dated: str = ""
    ends_value: str = ""
    instead_of: str = ""
    over: bool = False
    known: bool = False
    pattern: str = ""


ME = Ref("speaker")
YOU = Ref("listener")

_WHOM = dict.fromkeys(("i", "we", "my", "our"), ME) | dict.fromkeys(("you", "your"), YOU)
_WHOM |= {
    word: Ref("pronoun", who)
    for word, who in (("his", "he"), ("her", "she"), ("its", "it"), ("their", "they"))
}

Mode = Literal["holds", "ended", "never", "past"]


@dataclass(frozen=True, slots=True)
class Statement:
    """A clause, taken apart.

    Attributes:
        subject: Whom it speaks of.
        rest: What it says; begins with a verb, or with `'s` and what the subject has.
        mode: Whether it holds.
        correction: Whether it corrects what was said before.
        sure: Whether nothing in it doubts.
        when: The time that it begins with, if it does.
        group: Whether the subject is in the plural (`my dogs`).
    """

    subject: Ref
    rest: str
    mode: Mode = "holds"
    correction: bool = False
    sure: bool = True
    when: When | None = None
    group: bool = False


# -- from a message to its clauses --------------------------------------------------


def sentences_of(text: str) -> list[str]:
    """Return the sentences of `text` that the sender may claim something with.

    Args:
        text: A message, of any length; the work is bounded.
    """
    kept = text.strip()
    if len(kept) > MAX_TEXT:
        first = kept[: MAX_PARAGRAPH + 1].split("\n\n", 1)
        if len(first) == 1:
            return []
        kept = first[0]
    for hidden in (EXPRESSIONS["code"], EXPRESSIONS["quoted_line"], EXPRESSIONS["link"]):
        kept = hidden.sub(_HIDDEN, kept)
    kept = EXPRESSIONS["quote"].sub(_unquoted, kept)
    hands = EXPRESSIONS["hands_over"].search(kept)
    handed = EXPRESSIONS["handed_over"].search(kept) if hands else None
    if handed:
        kept = kept[: handed.start()]
    kept = EXPRESSIONS["requested"].sub(_what, kept)
    return [one for one in _split(kept) if EXPRESSIONS["unclaimed"].match(one) is None]


def _what(match: re.Match[str]) -> str:
    return f"{match['what']}."


def _unquoted(match: re.Match[str]) -> str:
    inside = match[1] or match[2] or ""
    # A name in quotation marks is a name; more words in them are somebody's.
    if len(inside.split()) <= 3 and not EXPRESSIONS["own_words"].search(inside):
        return inside.rstrip(".,")
    return _HIDDEN


def _split(text: str) -> list[str]:
    found: list[str] = []
    begin = 0
    for match in [*EXPRESSIONS["stop"].finditer(text), None]:
        end = match.start() if match else len(text)
        sign = match[0] if match else ""
        if match and sign.startswith("."):
            word = text[max(begin, end - 8) : end].rpartition(" ")[2].casefold()
            if word in _KNOWN.words["abbreviations"]["words"] or (
                len(word) == 1 and word != "i" and text[end - 1].isupper()
            ):
                continue
        sentence = text[begin:end].strip(" \t\r\n\ufffc-*•\"'()")
        begin = match.end() if match else end
        if 3 < len(sentence) <= MAX_SENTENCE:
            found.append(sentence + ("?" if "?" in sign else ""))
        if len(found) >= MAX_SENTENCES:
            break
    return found


def clauses_of(sentence: str) -> list[str]:
    """Return the parts of a sentence that say something by themselves, with their subjects."""
    asked = sentence.endswith("?")
    parts: list[tuple[str, bool]] = []
    begin, carry = 0, False
    sentence = sentence.rstrip("?")
    for match in _joints(sentence):
        parts.append((sentence[begin : match.start()], carry))
        begin, carry = match.end(), bool(match.groupdict().get("carry"))
    parts.append((sentence[begin:], carry))
    if asked:
        last = parts.pop()[0].strip(" ,")
        if EXPRESSIONS["tag"].match(last) or (
            parts and EXPRESSIONS["tag"].match(parts[-1][0].rpartition(",")[2].strip())
        ):
            return []
    return _with_subjects(parts)


def _joints(sentence: str) -> list[re.Match[str]]:
    found = [
        *EXPRESSIONS["joint"].finditer(sentence),
        *EXPRESSIONS["named_joint"].finditer(sentence),
    ]
    found.sort(key=re.Match.start)
    kept: list[re.Match[str]] = []
    for match in found:
        if not kept or match.start() >= kept[-1].end():
            kept.append(match)
    return kept


def _with_subjects(parts: list[tuple[str, bool]]) -> list[str]:
    clauses: list[str] = []
    subject = ""
    reported = False
    for text, carry in parts:
        clause = text.strip(" ,()—–-")
        if reported:
            reported = carry
            continue
        if carry:
            if not subject:
                continue
            clause = f"{subject} {clause}"
        else:
            match = EXPRESSIONS["subject"].match(clause)
            subject = match["subject"] if match else ""
        tail = max(0, len(clause) - TAIL)
        reported = EXPRESSIONS["reported"].search(clause, tail) is not None
        if clause and not reported:
            clauses.append(clause)
    return clauses


# -- from a clause to whom it speaks of ---------------------------------------------


def introductions(clause: str) -> tuple[str, list[Assertion]]:
    """Return `clause` with names alone in place of `my sister Ann`, and who was named so."""
    found: list[Assertion] = []

    def take(match: re.Match[str]) -> str:
        name = EXPRESSIONS["said_before"].sub("", match["name"])
        first = name.split()[0].casefold()
        if first in _KNOWN.words["nothing"]["openers"] or EXPRESSIONS["called"].match(name):
            return match[0]
        word, owner, names = match["role"].casefold(), _whom(match["whose"]), [name]
        role, more = _KNOWN.roles[word], match.groupdict().get("more")
        if more and word != role:  # `my sister Ann and Bob`: Bob is somebody else
            others = EXPRESSIONS["and"].split(more.lstrip(", "))
            names += [one.removeprefix("and ").strip() for one in others]
        for one in names:
            sure = UNSURE if one[0].islower() else SURE
            introduced = Assertion(
                subject=owner, relation=role, value=one, confidence=sure, pattern="beside"
            )
            found.append(introduced)
        if more:
            return _HIDDEN if word != role else name + more
        before = match["name"][: len(match["name"]) - len(name)]
        return before + name + (" " if match.re is EXPRESSIONS["small"] else "")

    clause = EXPRESSIONS["apposed"].sub(take, clause)
    clause = EXPRESSIONS["beside"].sub(take, clause)
    if clause[1:] == clause[1:].lower():
        clause = EXPRESSIONS["small"].sub(take, clause)
    return clause, found


def read_statement(clause: str, at: datetime) -> Statement | None:
    """Take a clause apart; None where it speaks of nobody that a fact could be about.

    Args:
        clause: One clause.
        at: When it was said.
    """
    clause, correction, sure = _opened(clause)
    begins = EXPRESSIONS["time"].match(clause) is not None
    when = find_time(clause, at) if begins else None
    if when is not None and when.span[0] == 0:
        clause = clause[when.span[1] :].lstrip(" ,")
        clause, again, sure_too = _opened(clause)
        correction, sure = correction or again, sure and sure_too
    else:
        when = None
    if EXPRESSIONS["former"].match(clause):
        return None
    if may_hold("may_be_short", clause) and grammar().short.search(clause) is not None:
        for form, whole in grammar().short_forms:
            clause = form.sub(whole, clause)
    subject, rest, group = _subject(clause)
    if subject is None:
        return None
    rest, mode = _mode_of(rest)
    return Statement(subject, rest, mode, correction, sure, when, group)


def _opened(clause: str) -> tuple[str, bool, bool]:
    """Return a clause without its opening words; whether they correct, and are sure."""
    correction, sure = False, True
    for _ in range(4):
        match = EXPRESSIONS["opening"].match(clause)
        if match is None:
            break
        words = match["words"]
        correction = correction or EXPRESSIONS["correcting"].fullmatch(words) is not None
        sure = sure and EXPRESSIONS["doubting"].fullmatch(words) is None
        clause = clause[match.end() :]
    return clause, correction, sure


def _subject(clause: str) -> tuple[Ref | None, str, bool]:
    if match := EXPRESSIONS["calls_me"].match(clause):
        return ME, "call me " + clause[match.end() :], False
    match = EXPRESSIONS["mine"].match(clause)
    # `my dentist appointment` speaks of no dentist.
    if match and (match["of"] or EXPRESSIONS["verb"].match(clause[match.end() :].lstrip(" ,"))):
        return _role_chain(match, clause)
    if match := EXPRESSIONS["own"].match(clause):
        return _whom(match["whose"]), "'s " + clause[match.end() :], False
    if match := EXPRESSIONS["pronoun"].match(clause):
        return _whom(match["who"]), clause[match.end() :].strip(), False
    if match := EXPRESSIONS["call_me"].match(clause):
        return ME, "call me " + clause[match.end() :], False
    match = EXPRESSIONS["named"].match(clause) or EXPRESSIONS["lower"].match(clause)
    if match is None:
        return None, "", False
    owner = Ref("name", match["name"])
    rest = clause[match.end() :].strip()
    if not match["of"]:
        return owner, rest, False
    chained = EXPRESSIONS["chained"].match(rest)
    if chained:
        return _role_chain(chained, rest, owner)
    return owner, "'s " + rest, False


def _role_chain(
    match: re.Match[str], clause: str, owner: Ref | None = None
) -> tuple[Ref | None, str, bool]:
    chained = EXPRESSIONS["chained"]
    owner = owner or _whom(match["whose"])
    while True:
        word = match["role"].casefold()
        role = _KNOWN.roles[word]
        owner = Ref("role", role, owner)
        rest = clause[match.end() :].strip()
        if not match["of"]:
            return owner, rest, word != role and word.endswith("s")
        following = chained.match(rest)
        if following is None:
            return owner, "'s " + rest, word.endswith("s") and match["of"] in {"'", "’"}
        match, clause = following, rest


def _whom(word: str) -> Ref:
    """Return whom a pronoun means, or whose something is."""
    return _WHOM.get(word.casefold()) or Ref("pronoun", word.casefold())


def _mode_of(rest: str) -> tuple[str, Mode]:
    """Return what a clause says, without the words that tell whether it holds; and whether."""
    rest = _without_adverbs(rest)
    if EXPRESSIONS["trailing"].search(rest, max(0, len(rest) - TAIL)) is not None:
        rest = EXPRESSIONS["trailing"].sub("", rest)
    mode: Mode = "holds"
    if (match := EXPRESSIONS["no_more"].search(rest)) is not None:
        rest, mode = rest[: match.start()], "ended"
    if (match := EXPRESSIONS["not"].match(rest)) is not None:
        aux = (match["aux"] or "").casefold()
        # What is denied with `any more` has ended.
        mode = "ended" if match["longer"] or mode == "ended" else "never"
        rest = _without_adverbs(
            match["rest"]
            if aux in {"", "do", "does", "did", "can", "could"}
            else f"{aux} {match['rest']}"
        )
    elif mode == "ended":
        mode = "holds"  # `I like it here any more` says nothing clear; the words stand as they are
    elif (match := EXPRESSIONS["stopped"].match(rest)) is not None:
        rest, mode = _without_adverbs(_base(match["rest"])), "ended"
    elif (match := EXPRESSIONS["used_to"].match(rest)) is not None:
        rest = _without_adverbs(f"am {match['was']}" if match["was"] else match["rest"])
        mode = "past"
    if rest.split(" ", 1)[0].casefold() in {"would", "could", "should", "might", "may"}:
        rest = ""
    return rest, mode


def _without_adverbs(text: str) -> str:
    match = EXPRESSIONS["adverbs"].match(text)
    return text if match is None else (match["aux"] or "") + text[match.end() :]


def _base(text: str) -> str:
    verb, _, rest = text.partition(" ")
    return f"{_KNOWN.gerunds.get(verb.casefold(), verb)} {rest}"


# -- what a person orders ----------------------------------------------------------

STANDING = ("answers in", "wants")
"""The relations of what was asked for so. They hold for every answer, whatever it is about."""


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
    what = _ordered(match, stops=never == "stop")
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


def _ordered(match: re.Match[str], *, stops: bool) -> str:
    """Return what is to be done, as it stands behind `always`."""
    what: str = match["what"].strip(" ,")
    if match["gerund"]:
        verb, _, rest = what.partition(" ")
        base = _KNOWN.gerunds.get(verb.casefold(), "")
        if not stops or base not in _KNOWN.words["orders"]["verbs"]:
            return ""
        what = f"{base} {rest}"
    return what[:1].lower() + what[1:]
