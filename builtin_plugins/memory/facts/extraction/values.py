"""Values as they are kept: cut where they end, and refused where they are none."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache

from hookgate.builtin_plugins.memory.facts.extraction.sentences import any_of
from hookgate.builtin_plugins.memory.facts.extraction.times import is_date
from hookgate.builtin_plugins.memory.facts.extraction.vocabulary import vocabulary

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

KINDS = {
    "age": r"(?P<{0}>\d{{1,3}})(?: years? old| years? of age| yo| now| today)?",
    "email": r"(?P<{0}>[\w.+-]{{1,64}}@[\w-]{{1,63}}(?:\.[\w-]{{1,63}}){{1,4}})",
    "phone": r"(?P<{0}>\+?[\d(][\d ()/.-]{{4,20}}\d)",
    "status": r"(?P<{0}>(?:happily |newly )?(?:married|engaged|divorced|widowed|separated|single))",
    "diet": r"(?P<{0}>vegetarian|vegan|pescatarian|gluten[- ]free|lactose[- ]intolerant|diabetic|"
    r"celiac|coeliac|keto|halal|kosher)",
}
"""Kinds of values that one expression knows."""

_BREEDS = re.compile(
    r"(?:[\w-]+ ){0,3}(?:retriever|labrador|poodle|terrier|shepherd|collie|beagle|bulldog|"
    r"dachshund|husky|pug|spaniel|corgi|chihuahua|boxer|rottweiler|dalmatian|mutt|mix|siamese|persian|"
    r"maine coon|ragdoll|tabby|sphynx|shorthair|labradoodle|pinscher|doodle|setter|mastiff|hound)",
    re.IGNORECASE,
)
_PROFESSION = re.compile(
    r"(?:[\w-]+ ){0,3}\w*(?:er|or|ist|ian|ant|ant|nurse|chef|pilot|attorney|clerk|agent|vet|cook|"
    r"surgeon|technician|architect|judge|mechanic|guard|representative|analyst|freelance|host|"
    r"student|carpenter|plumber|coach|ologist|wright|scientist|man|woman|assistant|intern|smith)",
    re.IGNORECASE,
)
_NO_PROFESSION = re.compile(
    r".*\b(?:vegetarian|vegan|pescatarian|over|lover|loner|member|believer|beginner|winner|user|newcomer|foreigner|speaker|"
    r"morning person|person|man|woman|mother|father|sister|brother|daughter|stranger|fighter|"
    r"thinker|sinner|owner|fan|bit|little|number|matter|minor|sucker|goner|liar|disaster|character|"
    r"customer|subscriber|later|ever|never|other|another|giant|human)",
    re.IGNORECASE,
)
_NAME = re.compile(r"[^\W\d_][\w'’.-]*(?: [^\W\d_][\w'’.-]*){0,3}")
_ADDRESS = re.compile(
    r"\d{1,5}[a-z]? \w.{2,60}|\w[\w' .-]{2,40} \d{1,5}[a-z]?\b.{0,40}", re.IGNORECASE
)
_ANY_TOKEN = re.compile(r"\S{25,}|[<>{}=|\\*#\[\]^~]")
_NEXT_ONE = re.compile(r",? (?:and )?(?:an?|one|two|three|my|our|the) .*$", re.IGNORECASE)
_DIVIDER = re.compile(r"\s*,\s*(?:and |or )?|\s+(?:and|or|&)\s+")
_COMMON_PLACE = re.compile(
    r"(?:[Tt]he|[Aa]n?|[Mm]y|[Yy]our|[Oo]ur|[Hh]is|[Hh]er|[Tt]his|[Tt]hat) [^A-Z]*$"
)
_A_PLACE = re.compile(
    r"(?:the|an?|my|our) (?:[a-z]+ ){0,2}(?:city|countryside|suburbs?|mountains?|coast|country|"
    r"village|town|farm|flat|apartment|house|houseboat|cabin|island|cottage|studio|netherlands|capital|"
    r"philippines|beach|dorm|parents|north|south|east|west)(?: .*)?",
    re.IGNORECASE,
)
_LANGUAGE = re.compile(r"[A-Z][a-zé]{3,}|[a-z]+(?:ish|ese|ian|nch|man|bic|ndi|tch|rean|hili)")


def clean(kind: str, text: str, *, lower: bool = True, proper: bool = False) -> str:
    """Return a value without what comes after it; "" where it is none.

    Args:
        kind: Of the placeholder.
        text: What stands in its place.
        lower: Whether a name may be written small.
        proper: Whether a name of an organization or place has to be written large.
    """
    if kind in KINDS:
        return text.strip()
    text = _cut(kind, text)
    if not text or len(text) > MAX_VALUE or _ANY_TOKEN.search(text) or "\ufffc" in text:
        return ""
    check = _CHECKS.get(kind)
    if check is not None and not check(text):
        return ""
    if kind in {"name", "names"}:
        return _name(text, lower)
    if proper and kind in {"place", "organization"} and not text[0].isupper():
        return ""
    if kind == "place" and _COMMON_PLACE.match(text) and not _A_PLACE.fullmatch(text):
        return ""
    if kind not in {"date", "address", "breed"} and _nothing("values").match(text):
        return ""
    if kind in {"place", "organization", "job"} and _nothing("names").fullmatch(text):
        return ""
    return text


def several(kind: str, text: str, *, lower: bool = True) -> list[str]:
    """Return the values of a list such as `tea, coffee and cake`."""
    if kind == "names":
        # `a cat, Tom, and a dog, Rex` names one cat.
        text = _NEXT_ONE.sub("", text)
    parts = _DIVIDER.split(text)[:MAX_VALUES]
    one = {"names": "name", "things": "thing", "languages": "language"}[kind]
    found = [clean(one, part, lower=lower) for part in parts if part]
    return [value for value in found if value]


def _cut(kind: str, text: str) -> str:
    text = text.strip().strip("\"'“”")
    if kind in {"date", "address"}:
        return text.strip(" .,")
    ends = _LIKE.get(kind, kind if kind in {"name", "place", "thing"} else "thing")
    found = _ends(ends).search(text)
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


@cache
def _ends(kind: str) -> re.Pattern[str]:
    words = any_of("ends", kind)
    # A name list goes on after `and`; its parts are cut one by one.
    return re.compile(rf"(?:,\s*)?(?<!\w){words}(?!\w)(?<!^the)", re.IGNORECASE)


@cache
def _nothing(key: str) -> re.Pattern[str]:
    return re.compile(rf"{any_of('nothing', key)}\b", re.IGNORECASE)


def _name(text: str, lower: bool) -> str:
    match = _NAME.fullmatch(text)
    if match is None or _nothing("names").fullmatch(text.split()[0]):
        return ""
    if text.casefold() in vocabulary().roles:
        return ""
    if text[0].isupper():
        # `Luna very much`: of a name with capital letters, the words with them.
        words = text.split()
        while len(words) > 1 and not words[-1][0].isupper():
            words.pop()
        return " ".join(words)
    return text if lower and len(text.split()) == 1 else ""


def _is_profession(text: str) -> bool:
    return _PROFESSION.fullmatch(text) is not None and _NO_PROFESSION.fullmatch(text) is None


_CHECKS: dict[str, Callable[[str], bool]] = {
    "date": is_date,
    "breed": lambda text: _BREEDS.fullmatch(text) is not None,
    "address": lambda text: _ADDRESS.fullmatch(text) is not None,
    "profession": _is_profession,
    "language": lambda text: _LANGUAGE.fullmatch(text) is not None,
}
