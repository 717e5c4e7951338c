"""From a message to what it claims, before it is known whom that is about."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import datetime

from hookgate.builtin_plugins.memory.facts.clauses import (
    ME,
    Assertion,
    Ref,
    Statement,
    clauses_of,
    introductions,
    order_in,
    read_statement,
    sentences_of,
)
from hookgate.builtin_plugins.memory.facts.grammar import (
    EXPRESSIONS,
    UNSURE,
    Pattern,
    fits_any,
    grammar,
    may_hold,
    patterns,
    vocabulary,
)
from hookgate.builtin_plugins.memory.facts.times import When, find_time, is_date

MAX_CLAIMS = 24
"""Claims of one message."""

_PLACES = ("lives in", "works at", "studies at")
"""What one may leave."""

MAX_VALUE = 80
"""Characters of a value."""

MAX_VALUES = 8
"""Values of one statement."""

_WORDS = {"name": 4, "names": 12, "place": 6, "organization": 6, "job": 6, "thing": 9, "things": 30}
_LIKE = {
    "names": "name",
    "organization": "place",
    "job": "place",
    "things": "thing",
    "languages": "thing",
}
"""Which list of words ends a value of a kind."""

_KNOWN = vocabulary()


def extract(text: str, at: datetime) -> list[Assertion]:
    """Return what a message claims, in the order of its words.

    Args:
        text: The message, of any length; the work is bounded.
        at: When it was said, in UTC.
    """
    claims: list[Assertion] = []
    asks = may_hold("may_be_order", text)
    for sentence in sentences_of(text):
        claims += _of_sentence(sentence, at, asks=asks)
        if len(claims) >= MAX_CLAIMS:
            break
    return claims[:MAX_CLAIMS]


def _of_sentence(sentence: str, at: datetime, *, asks: bool) -> list[Assertion]:
    begins = EXPRESSIONS["begins_correcting"].match(sentence)
    if begins is not None and (meant := _meant(sentence, begins[0])) is not None:
        return [meant]
    if (marked := EXPRESSIONS["marked"].match(sentence)) is not None:
        sentence = f"{marked[1]} {sentence[marked.end() :]}"
    sentence, claims = introductions(sentence)
    corrects = False
    for clause in clauses_of(sentence):
        if claims and claims[-1].subject.kind == "value" and (meant := _meant(clause, "no")):
            # `Lyon was wrong, it's Nice`
            claims[-1] = replace(meant, instead_of=claims[-1].value, pattern=claims[-1].pattern)
            continue
        if EXPRESSIONS["only_correcting"].fullmatch(clause):
            corrects = True  # `No, sorry, ...` may stand before a comma of its own
            continue
        if asks and not sentence.endswith("?") and (orders := order_in(clause, at)):
            claims += orders
            continue
        statement = read_statement(clause, at)
        if statement is None:
            continue
        if corrects and not statement.correction:
            statement = replace(statement, correction=True)
        claims += _of_statement(statement, at)
    if sentence.endswith("?"):
        # Who is introduced in a question may not be there at all.
        claims = [claim for claim in claims if claim.pattern != "beside"]
    return claims


def _meant(sentence: str, begins: str) -> Assertion | None:
    """Return the correction that names a value alone: `No, it's Rex`, `I meant Rome, not Milan`."""
    if len(sentence) > 80:
        return None
    match = EXPRESSIONS["it_is"].fullmatch(sentence) or EXPRESSIONS["not_but"].fullmatch(sentence)
    if match is None:
        return None
    value, other = match["value"].strip(), (match["other"] or "").strip()
    if not other and begins.casefold() in {"it's", "it’s", "it is"}:
        return None
    value = clean("thing", value)
    if EXPRESSIONS["clause"].match(value) or len(value.split()) > 4:
        return None
    if not value or not (value[0].isupper() or value[0].isdigit() or other):
        return None
    return Assertion(
        subject=Ref("last"),
        relation="",
        value=value,
        correction=True,
        instead_of=clean("thing", other) if other else "",
        pattern="it is",
    )


def _of_statement(statement: Statement, at: datetime) -> list[Assertion]:
    rest, other = statement.rest, ""
    if (match := EXPRESSIONS["instead"].search(rest)) is not None and match.start() > 0:
        rest, other = rest[: match.start()], clean("thing", match["other"])
    if not rest:
        return []
    behind = find_time(rest, at)
    without = rest if behind is None else _without(rest, behind)
    if not fits_any(rest) and (without == rest or not fits_any(without)):
        return []
    for pattern in patterns():
        when = statement.when or behind
        if pattern.dated and (when is None or statement.mode != "holds"):
            continue
        said = rest if pattern.keeps_time else without
        match = pattern.match.fullmatch(said)
        if match is None:
            continue
        ahead = pattern.tense == "plan"
        if when is not None and ahead:
            when = find_time(rest, at, ahead=True) or when
        found = _claims(pattern, match, statement, None if pattern.keeps_time else when, at)
        if found:
            if other or statement.correction:
                found = [replace(one, correction=True, instead_of=other) for one in found]
            return found
    return []


def _without(text: str, when: When) -> str:
    begin, end = when.span
    return " ".join(f"{text[:begin].rstrip(' ,')} {text[end:].lstrip(' ,')}".split())


def _claims(
    pattern: Pattern, match: re.Match[str], statement: Statement, when: When | None, at: datetime
) -> list[Assertion]:
    relation = pattern.relation
    mode = statement.mode
    if mode in {"never", "ended"} and pattern.denied and (mode == "never" or not relation):
        relation, mode = pattern.denied, "holds"
    if not relation or not _fits(pattern.subject, statement.subject):
        return []
    if pattern.correction and not statement.correction:
        return []
    found = _values(pattern, match, statement, relation)
    if not found and pattern.ends and not pattern.values:
        found = [(statement.subject, relation, "")]
    dated = [
        _dated(
            Assertion(
                subject=subject,
                relation=name,
                value=value,
                confidence=pattern.sure if statement.sure else min(UNSURE, pattern.sure),
                correction=pattern.correction,
                over=pattern.over and not _is_thing_that_died(pattern, subject),
                known=relation == "@left",
                pattern=pattern.name,
            ),
            "ended" if pattern.ends and mode == "holds" else mode,
            pattern.tense,
            when,
            at,
        )
        for subject, name, value in found
    ]
    if pattern.until and dated and pattern.tense == "change":
        old = clean("place", match[pattern.until] or "") if match[pattern.until] else ""
        dated[0] = replace(dated[0], ends_value=old)
    return dated


def _is_thing_that_died(pattern: Pattern, subject: Ref) -> bool:
    """Whether it is a car or the like that broke down; somebody has it still."""
    thing = subject.kind == "role" and _KNOWN.relation(subject.text).gender == "thing"
    return thing and pattern.relation == "event"


def _fits(wanted: str, subject: Ref) -> bool:
    if wanted == "pet":
        return subject.kind in {"role", "name", "pronoun"}
    if wanted in {"name", "topic"}:
        return subject.kind == "name"
    return not wanted or subject.kind == wanted


def _values(
    pattern: Pattern, match: re.Match[str], statement: Statement, relation: str
) -> list[tuple[Ref, str, str]]:
    """Return subject, relation and value of all that a pattern has found."""
    subject = statement.subject
    if relation == "@is":
        role = _KNOWN.roles[match["role"].casefold()]
        return [(ME, role, subject.text)]
    if relation == "@own":
        value = clean("thing", match["thing"])
        return [(subject, match["topic"].casefold(), value)] if value[:1].isupper() else []
    if relation == "@favourite":
        topic = match["topic"].casefold().replace("color", "colour")
        if topic in _KNOWN.words["nothing"]["topics"]:
            return []
        if pattern.subject == "topic":
            return [(ME, f"favourite {topic}", subject.text)]
        value = clean("thing", match["thing"])
        return [(subject, f"favourite {topic}", value)] if value else []
    if relation == "@role":
        role = _KNOWN.roles[match["role"].casefold()]
        said = match.groupdict()
        text = said.get("names") or said.get("name")
        return [(subject, role, name) for name in (several("names", text) if text else [""])]
    if relation == "@wrong":
        named = subject.kind == "name"
        value = subject.text if named else "".join(_plain(pattern, match))
        return [(Ref("value", value), "", value)] if value else []
    if relation == "@over":
        return _given_up(match)
    if relation == "@another":
        name = clean("name", match["name"])
        return [(subject, relation, name)] if name else []
    if relation == "@it":
        name = clean("name", match["name"], lower=False)
        return [(Ref("pronoun", "they"), "name", name)] if name else []
    if relation == "@name":
        return _names(match["name"], statement, lower=not pattern.capital)
    if relation == "@thing":
        return _thing(match, subject)
    if relation == "@left":
        return [(subject, name, value) for name in _PLACES for value in _plain(pattern, match)]
    found = [(subject, relation, value) for value in _plain(pattern, match)]
    if found and pattern.also:
        kind, group = pattern.values[1]
        other = clean(kind, match[group], proper=pattern.proper)
        if not other:
            return []
        found.append((subject, pattern.also, other))
    if found and pattern.also_status:
        found.append((subject, "marital status", "engaged" if "engaged" in match[0] else "married"))
    return found


def _given_up(match: re.Match[str]) -> list[tuple[Ref, str, str]]:
    did, how = match["did"].casefold(), match["how"] or ""
    if not how and did not in {"sold", "sell"}:
        return []
    if match["role"]:
        who = Ref("role", _KNOWN.roles[match["role"].casefold()], ME)
    else:
        who = Ref("name", clean("name", match["name"], lower=False))
    return [(who, "event", f"{did} {how}".strip())] if who.text else []


def _plain(pattern: Pattern, match: re.Match[str]) -> list[str]:
    for kind, group in pattern.values or (("thing", "thing"),):
        if group == pattern.until or group not in match.re.groupindex:
            continue
        text = match[group] or ""
        if kind in {"names", "things", "languages"}:
            return several(kind, text, proper=pattern.proper)
        checked = "profession" if pattern.profession else kind
        value = clean(checked, text, lower=not pattern.capital, proper=pattern.proper)
        if kind == "thing" and pattern.dated:
            value = _event(text)
        return [f"{pattern.prefix} {value}".strip()] if value else []
    if "thing" in match.re.groupindex and match["thing"]:
        if pattern.dated:
            return [_event(match["thing"])]
        return [match["thing"] if pattern.keeps_time else match["thing"].casefold()]
    return []


def _event(text: str) -> str:
    """Return what is done, without its helping verb and what comes after it."""
    text = EXPRESSIONS["helping"].sub("", text.strip()).strip(" ,")
    words = text.split()
    if not words or len(words) > 10 or len(text) > 80:
        return ""
    return text


def _names(text: str, statement: Statement, *, lower: bool) -> list[tuple[Ref, str, str]]:
    subject = statement.subject
    if statement.group:
        names = several("names", text, lower=lower)
    else:
        name = clean("name", text, lower=lower)
        names = [name] if name else []
    if subject.kind == "role" and subject.owner is not None:
        return [(subject.owner, subject.text, name) for name in names]
    return [(subject, "name", name) for name in names]


def _thing(match: re.Match[str], subject: Ref) -> list[tuple[Ref, str, str]]:
    if subject.owner is None or _KNOWN.relation(subject.text).gender != "thing":
        return []
    value = clean("thing", match["thing"])
    begins = match[0][: match.start("thing") - match.start()].split()
    if not value or (len(begins) < 2 and not value[0].isupper()):
        return []
    return [(subject.owner, subject.text, value)]


def _dated(claim: Assertion, mode: str, tense: str, when: When | None, at: datetime) -> Assertion:
    start = when.start if when else None
    words = when.words if when else ""
    if mode == "past" or tense == "past":
        if when is not None and when.kind == "between":
            return replace(claim, mode="ended", valid_from=start, valid_to=when.end)
        if when is not None and when.kind == "since":
            return replace(claim, mode="ended", valid_from=start, valid_to=at)
        until = start if when is not None and when.kind == "until" else None
        if until is None and when is not None and when.kind == "at":
            return replace(claim, mode="ended", valid_from=start, valid_to=at, dated=f"in {words}")
        return replace(claim, mode="ended", valid_to=until or at)
    if mode == "ended":
        return replace(claim, mode="ended", valid_to=start if start and start <= at else at)
    if mode == "never":
        return replace(claim, mode="never")
    if tense == "change":
        return replace(claim, valid_from=start or at, dated=f"since {words}" if words else "")
    if when is None or start is None:
        return claim
    if when.kind == "until":
        return replace(claim, valid_to=start, dated=f"until {words}")
    preposition = (
        "since" if when.kind in {"since", "for"} else "on" if when.precision == "day" else "in"
    )
    return replace(claim, valid_from=start, dated=f"{preposition} {words}")


# -- values as they are kept: cut where they end, and refused where they are none ----------


def clean(kind: str, text: str, *, lower: bool = True, proper: bool = False) -> str:
    """Return a value without what comes after it; "" where it is none.

    Args:
        kind: Of the placeholder.
        text: What stands in its place.
        lower: Whether a name may be written small.
        proper: Whether a name of an organization or place has to be written large.
    """
    if kind in grammar().kinds:
        return text.strip()
    text = _cut(kind, text)
    if not text or len(text) > MAX_VALUE or EXPRESSIONS["no_text"].search(text) or "\ufffc" in text:
        return ""
    if kind in {"address", "breed", "language"} and not EXPRESSIONS[kind].fullmatch(text):
        return ""
    if (kind == "date" and not is_date(text)) or (kind == "profession" and not _is_job(text)):
        return ""
    if kind in {"name", "names"}:
        return _name(text, lower)
    if proper and kind in {"place", "organization"} and not text[0].isupper():
        return ""
    if (
        kind == "place"
        and EXPRESSIONS["common_place"].match(text)
        and not EXPRESSIONS["a_place"].fullmatch(text)
    ):
        return ""
    if kind not in {"date", "address", "breed"} and EXPRESSIONS["no_value"].match(text):
        return ""
    # `I live in Nice` names a town, and `I live in peace` none.
    written = kind in {"place", "organization"} and text[0].isupper()
    if kind in {"place", "organization", "job"} and not written:
        return "" if EXPRESSIONS["no_name"].fullmatch(text) else text
    return text


def several(kind: str, text: str, *, lower: bool = True, proper: bool = False) -> list[str]:
    """Return the values of a list such as `tea, coffee and cake`."""
    if kind == "names":
        # `a cat, Tom, and a dog, Rex` names one cat.
        text = EXPRESSIONS["next_one"].sub("", text)
    parts = EXPRESSIONS["divider"].split(text)[:MAX_VALUES]
    one = {"names": "name", "things": "thing", "languages": "language"}[kind]
    found = [clean(one, part, lower=lower) for part in parts if part]
    return [value for value in found if value and (value[0].isupper() or not proper)]


def _cut(kind: str, text: str) -> str:
    text = text.strip().strip("\"'“”")
    if kind in {"date", "address"}:
        return text.strip(" .,")
    ends = _LIKE.get(kind, kind if kind in {"name", "place", "thing"} else "thing")
    found = EXPRESSIONS[f"ends_{ends}"].search(text)
    if found:
        text = text[: found.start()]
    text = text.split("(")[0].strip(" ,.;:!-")
    if kind == "place":
        # `San Diego, California` is one place; more after another comma is not of it.
        text = ", ".join(text.split(", ")[:2])
    if kind in {"name", "organization", "job", "thing", "breed"}:
        text = text.split(", ")[0]
    limit = _WORDS.get(kind, 9)
    return text if len(text.split()) <= limit else ""


def _name(text: str, lower: bool) -> str:
    match = EXPRESSIONS["name"].fullmatch(text)
    if match is None or EXPRESSIONS["no_name"].fullmatch(text.split()[0]):
        return ""
    if text.casefold() in _KNOWN.roles:
        return ""
    if text[0].isupper():
        # `Luna very much`: of a name with capital letters, the words with them.
        words = text.split()
        while len(words) > 1 and not words[-1][0].isupper():
            words.pop()
        return " ".join(words)
    return text if lower and len(text.split()) == 1 else ""


def _is_job(text: str) -> bool:
    return bool(EXPRESSIONS["profession"].fullmatch(text)) and not EXPRESSIONS[
        "no_profession"
    ].fullmatch(text)
