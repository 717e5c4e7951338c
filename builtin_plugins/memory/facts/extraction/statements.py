"""A statement taken apart: whom it speaks of, and what it says of them."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cache
from typing import Literal

from hookgate.builtin_plugins.memory.facts.extraction.assertions import Ref
from hookgate.builtin_plugins.memory.facts.extraction.sentences import CAPITAL, any_of
from hookgate.builtin_plugins.memory.facts.extraction.times import When, find_time
from hookgate.builtin_plugins.memory.facts.extraction.vocabulary import vocabulary

ME = Ref("speaker")
YOU = Ref("listener")

_ADJECTIVES = (
    r"(?:(?:older|younger|elder|little|big|new|eldest|youngest|oldest|twin|first|second|third|other|"
    r"dear|lovely|beloved|sweet|adorable|crazy|cute|good|close|old|two|three|four|five|2|3|4|beautiful|wonderful|amazing|black|"
    r"white|brown|ginger|red|blue|grey|gray|\w+-year-old) ){0,2}"
)
_FORMER = re.compile(
    r"\b(?:my|our|his|her|their) (?:ex|former|late|previous|first ex)\b[- ]", re.IGNORECASE
)
_NAME = rf"{CAPITAL}[\w'’-]*(?<!['’]s)(?: {CAPITAL}[\w'’-]*(?<!['’]s)){{0,2}}"
_SHORT_FORMS = (
    (r"\bI['’]m\b|\bi['’]?m\b|\bIm\b", "I am"),
    (r"\b(I|we|you|they)['’]ve\b|\b(I)ve\b", r"\1\2 have"),
    (r"\b(we|you|they)['’]re\b", r"\1 are"),
    (
        r"\b(she|he|it|that|this)['’]s (?=got\b|been\b|moved\b|started\b|left\b|quit\b|become\b)",
        r"\1 has ",
    ),
    (r"\b(she|he|it|that|this)['’]s\b", r"\1 is"),
    (r"\b(\w+)n['’]t\b", r"\1 not"),
    (r"\bdont\b", "do not"),
    (r"\bdoesnt\b", "does not"),
    (r"\bca not\b|\bcannot\b", "can not"),
    (r"\b(I|we|you|they|she|he|it)['’](?:ll|d)\b", r"\1 would"),
)
_EXPAND = tuple((re.compile(form, re.IGNORECASE), whole) for form, whole in _SHORT_FORMS)
_TRAILING = re.compile(
    r"(?:,? (?:now|right now|these days|at the moment|currently|though|too|as well|by the way|"
    r"btw|actually|again|please|you know|already|at last|for now|lol|haha|of course|i think|"
    r"instead))+$",
    re.IGNORECASE,
)
_VERB = re.compile(
    r"(?:\w+s|\w+ed|\w+ing|are|have|had|will|can|do|did|not|no|never|got|went|left|quit|became|began|"
    r"bought|grew|ran|won|broke|met|just|recently|really|also|still|now|currently|live|work|like|"
    r"love|hate|play|study|speak|go|come|and|"
    r"would|died|used|prefer|enjoy|said|told|always|only|both)\b",
    re.IGNORECASE,
)
_NO_MORE = re.compile(r"\s+(?:any ?more|any longer)\b.*$", re.IGNORECASE)
_CALLS_ME = re.compile(
    r"(?:everyone|everybody|people|most people|they|(?:all )?(?:my )?(?:friends|colleagues|family))"
    r" (?:just |usually )?calls? me (?=\w)",
    re.IGNORECASE,
)
_NOT = re.compile(
    r"^(?:(?P<aux>am|is|are|was|were|have|has|do|does|did|can|could|have been|has been) )?"
    r"(?:(?P<longer>no longer|not any longer|never again)|(?P<not>not|never)) (?P<rest>.+)$",
    re.IGNORECASE,
)
_STOPPED = re.compile(
    r"^(?:have |has )?(?:stopped|gave up|given up|quit) (?P<rest>\w+ing\b.*)$", re.IGNORECASE
)
_USED_TO = re.compile(r"^used to (?:be (?P<was>.+)|(?P<rest>.+))$", re.IGNORECASE)
_GERUNDS = {
    "living": "live",
    "working": "work",
    "playing": "play",
    "liking": "like",
    "studying": "study",
    "driving": "drive",
    "eating": "eat",
    "dating": "am dating",
    "seeing": "am seeing",
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


@dataclass(frozen=True, slots=True)
class Introduced:
    """Somebody was named beside what they are: `my sister Ann`.

    Attributes:
        owner: Whose.
        role: What they are.
        name: How they are called.
    """

    owner: Ref
    role: str
    name: str


@cache
def role_words() -> str:
    """Return a group that fits the words for roles, longest first."""
    words = sorted(vocabulary().roles, key=len, reverse=True)
    return "(?:" + "|".join(map(re.escape, words)) + ")"


@cache
def _grammar() -> dict[str, re.Pattern[str]]:
    role = rf"{_ADJECTIVES}(?P<role>{role_words()})"
    whose = rf"(?P<whose>(?i:my|our|your)) (?i:{role})"
    fold = re.IGNORECASE
    return {
        "opening": re.compile(
            rf"(?P<words>{any_of('openings', 'correcting')}|{any_of('openings', 'doubting')}|"
            rf"{any_of('openings', 'plain')})(?:\s*[,:!.–—-]\s*|\s+(?=\S))",
            fold,
        ),
        "correcting": re.compile(any_of("openings", "correcting"), fold),
        "doubting": re.compile(any_of("openings", "doubting"), fold),
        "mine": re.compile(
            rf"(?P<whose>my|our|your|his|her|its|their) {role}(?P<of>['’]s?)?(?=\s|$)", fold
        ),
        "chained": re.compile(rf"\s*{role}(?P<of>['’]s?)?(?=\s|$)", fold),
        "own": re.compile(r"(?P<whose>my|our|your|his|her|its|their) (?=\w)", fold),
        "pronoun": re.compile(r"(?P<who>I|we|you|she|he|it|they|this|that)(?=\s|$)", fold),
        "named": re.compile(rf"(?P<name>{_NAME})(?P<of>['’]s)?(?=\s|$)"),
        "lower": re.compile(
            r"(?P<name>[a-z][\w-]+)(?P<of>['’]s)? (?=(?:is|lives|works|likes|loves|has|moved)\b)"
        ),
        "adverbs": re.compile(
            r"^(?P<aux>(?:am|is|are|have|has|was|were|do|does) )?"
            rf"(?:{any_of('adverbs', 'words')} )+(?=\S)",
            fold,
        ),
        "beside": re.compile(
            rf"\b{whose},? (?P<name>{_NAME})(?P<more>(?:(?:,| and|, and) {_NAME})*),?"
            r"(?=\s|$|['’]s)"
        ),
        "apposed": re.compile(rf"(?P<name>{_NAME}), {whose}(?:,|$)"),
        "small": re.compile(
            rf"\b{whose} (?P<name>[a-z][a-z'-]{{1,20}}) "
            r"(?=(?:is|lives|works|likes|loves|hates|has|was|moved|plays|studies|speaks|turned|got)\b)"
        ),
    }


def introductions(clause: str) -> tuple[str, list[Introduced]]:
    """Return `clause` with names alone in place of `my sister Ann`, and who was named so."""
    found: list[Introduced] = []

    def several_named(match: re.Match[str], name: str, more: str) -> str:
        word = match["role"].casefold()
        role, owner = vocabulary().roles[word], _whose(match["whose"])
        if word == role:  # `my sister Ann and Bob`: Bob is somebody else
            found.append(Introduced(owner, role, name))
            return name + more
        names = [name, *_AND.split(more.lstrip(", "))]
        found.extend(Introduced(owner, role, one.removeprefix("and ").strip()) for one in names)
        return _ALL_OF_THEM

    def take(match: re.Match[str]) -> str:
        name = _SAID_BEFORE.sub("", match["name"])
        if name.split()[0].casefold() in _NO_NAMES or _called().match(name):
            return match[0]
        more = match.groupdict().get("more")
        if more:
            return several_named(match, name, more)
        found.append(
            Introduced(_whose(match["whose"]), vocabulary().roles[match["role"].casefold()], name)
        )
        before = match["name"][: len(match["name"]) - len(name)]
        return before + name + (" " if match.re is _grammar()["small"] else "")

    grammar = _grammar()
    clause = grammar["apposed"].sub(take, clause)
    clause = grammar["beside"].sub(take, clause)
    if clause[1:] == clause[1:].lower():
        clause = grammar["small"].sub(take, clause)
    return clause, found


_AND = re.compile(r",? and |, ")
_ALL_OF_THEM = "\ufffc"
"""Stands for several who were named together; of each alone nothing is said."""
_SAID_BEFORE = re.compile(
    r"^(?:Took|Take|Met|Meet|Saw|See|Visited|Called|Call|Walked|Had|Got|Love|Miss|Told|Gave|Fed|Hi|"
    r"Hello|Hey|Dear|Yesterday|Today|And|But|So|With|When|While|Because|Thanks|Brought|Picked|Me|"
    r"Just|Now|Also|Poor|Ask|Tell) (?=[A-Z])"
)
_NO_NAMES = frozenset(
    [
        "i",
        "i'm",
        "i’m",
        "i've",
        "i'll",
        "i'd",
        "and",
        "but",
        "is",
        "named",
        "called",
        "who",
        "still",
        "also",
        "really",
    ]
)


@cache
def _called() -> re.Pattern[str]:
    return re.compile(
        rf"(?:{any_of('adverbs', 'words')}|{any_of('nothing', 'names')}|"
        rf"{any_of('nothing', 'compounds')})$",
        re.IGNORECASE,
    )


def read_statement(clause: str, at: datetime) -> Statement | None:
    """Take a clause apart; None where it speaks of nobody that a fact could be about.

    Args:
        clause: One clause.
        at: When it was said.
    """
    clause, correction, sure = _opened(clause)
    when = find_time(clause, at)
    if when is not None and when.span[0] == 0:
        clause = clause[when.span[1] :].lstrip(" ,")
        clause, again, sure_too = _opened(clause)
        correction, sure = correction or again, sure and sure_too
    else:
        when = None
    if _FORMER.match(clause):
        return None
    for form, whole in _EXPAND:
        clause = form.sub(whole, clause)
    subject, rest, group = _subject(clause)
    if subject is None:
        return None
    statement = Statement(subject, rest, "holds", correction, sure, when, group)
    return _with_mode(statement)


def _opened(clause: str) -> tuple[str, bool, bool]:
    """Return a clause without its opening words; whether they correct, and are sure."""
    grammar = _grammar()
    correction, sure = False, True
    for _ in range(4):
        match = grammar["opening"].match(clause)
        if match is None:
            break
        words = match["words"]
        correction = correction or grammar["correcting"].fullmatch(words) is not None
        sure = sure and grammar["doubting"].fullmatch(words) is None
        clause = clause[match.end() :]
    return clause, correction, sure


def _subject(clause: str) -> tuple[Ref | None, str, bool]:
    grammar = _grammar()
    if match := _CALLS_ME.match(clause):
        return ME, "call me " + clause[match.end() :], False
    match = grammar["mine"].match(clause)
    # `my dentist appointment` speaks of no dentist.
    if match and (match["of"] or _VERB.match(clause[match.end() :].lstrip(" ,"))):
        return _role_chain(match, clause)
    if match := grammar["own"].match(clause):
        return _whose(match["whose"]), "'s " + clause[match.end() :], False
    if match := grammar["pronoun"].match(clause):
        return _who(match["who"]), clause[match.end() :].strip(), False
    if clause[:8].casefold() == "call me ":
        return ME, clause, False
    match = grammar["named"].match(clause) or grammar["lower"].match(clause)
    if match is None:
        return None, "", False
    owner = Ref("name", match["name"])
    rest = clause[match.end() :].strip()
    if not match["of"]:
        return owner, rest, False
    chained = grammar["chained"].match(rest)
    if chained:
        return _role_chain(chained, rest, owner)
    return owner, "'s " + rest, False


def _role_chain(
    match: re.Match[str], clause: str, owner: Ref | None = None
) -> tuple[Ref | None, str, bool]:
    chained = _grammar()["chained"]
    owner = owner or _whose(match["whose"])
    while True:
        word = match["role"].casefold()
        role = vocabulary().roles[word]
        owner = Ref("role", role, owner)
        rest = clause[match.end() :].strip()
        if not match["of"]:
            return owner, rest, word != role and word.endswith("s")
        following = chained.match(rest)
        if following is None:
            return owner, "'s " + rest, word.endswith("s") and match["of"] in {"'", "’"}
        match, clause = following, rest


def _whose(word: str) -> Ref:
    word = word.casefold()
    if word in {"my", "our"}:
        return ME
    if word == "your":
        return YOU
    return Ref("pronoun", {"his": "he", "her": "she", "its": "it", "their": "they"}[word])


def _who(word: str) -> Ref:
    word = word.casefold()
    if word in {"i", "we"}:
        return ME
    return YOU if word == "you" else Ref("pronoun", word)


def _with_mode(statement: Statement) -> Statement:
    rest = _grammar()["adverbs"].sub(lambda match: match["aux"] or "", statement.rest, count=1)
    rest = _TRAILING.sub("", rest)
    mode: Mode = "holds"
    if (match := _NO_MORE.search(rest)) is not None:
        rest, mode = rest[: match.start()], "ended"
    if (match := _NOT.match(rest)) is not None:
        aux = (match["aux"] or "").casefold()
        # What is denied with `any more` has ended.
        mode = "ended" if match["longer"] or mode == "ended" else "never"
        rest = (
            match["rest"]
            if aux in {"", "do", "does", "did", "can", "could"}
            else f"{aux} {match['rest']}"
        )
    elif mode == "ended":
        mode = "holds"  # `I like it here any more` says nothing clear; the words stand as they are
    elif (match := _STOPPED.match(rest)) is not None:
        rest, mode = _base(match["rest"]), "ended"
    elif (match := _USED_TO.match(rest)) is not None:
        rest, mode = (f"am {match['was']}" if match["was"] else match["rest"]), "past"
    if rest.split(" ", 1)[0].casefold() in {"would", "could", "should", "might", "may"}:
        rest = ""
    return replace(
        statement,
        rest=_grammar()["adverbs"].sub(lambda m: m["aux"] or "", rest, count=1),
        mode=mode,
    )


def _base(text: str) -> str:
    verb, _, rest = text.partition(" ")
    return f"{_GERUNDS.get(verb.casefold(), verb)} {rest}"
