"""Values as they are kept: cut where they end, and refused where they are none."""

from __future__ import annotations

from collections.abc import Callable

from hookgate.builtin_plugins.memory.facts.grammar import grammar, vocabulary
from hookgate.builtin_plugins.memory.facts.times import is_date

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

_E, _KNOWN = grammar().expressions, vocabulary()


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
    if not text or len(text) > MAX_VALUE or _E["no_text"].search(text) or "\ufffc" in text:
        return ""
    check = _CHECKS.get(kind)
    if check is not None and not check(text):
        return ""
    if kind in {"name", "names"}:
        return _name(text, lower)
    if proper and kind in {"place", "organization"} and not text[0].isupper():
        return ""
    if kind == "place" and _E["common_place"].match(text) and not _E["a_place"].fullmatch(text):
        return ""
    if kind not in {"date", "address", "breed"} and _E["no_value"].match(text):
        return ""
    if kind in {"place", "organization", "job"} and _E["no_name"].fullmatch(text):
        return ""
    return text


def several(kind: str, text: str, *, lower: bool = True) -> list[str]:
    """Return the values of a list such as `tea, coffee and cake`."""
    if kind == "names":
        # `a cat, Tom, and a dog, Rex` names one cat.
        text = _E["next_one"].sub("", text)
    parts = _E["divider"].split(text)[:MAX_VALUES]
    one = {"names": "name", "things": "thing", "languages": "language"}[kind]
    found = [clean(one, part, lower=lower) for part in parts if part]
    return [value for value in found if value]


def _cut(kind: str, text: str) -> str:
    text = text.strip().strip("\"'“”")
    if kind in {"date", "address"}:
        return text.strip(" .,")
    ends = _LIKE.get(kind, kind if kind in {"name", "place", "thing"} else "thing")
    found = _E[f"ends_{ends}"].search(text)
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
    match = _E["name"].fullmatch(text)
    if match is None or _E["no_name"].fullmatch(text.split()[0]):
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


def _is_profession(text: str) -> bool:
    return (
        _E["profession"].fullmatch(text) is not None and _E["no_profession"].fullmatch(text) is None
    )


_CHECKS: dict[str, Callable[[str], bool]] = {
    "date": is_date,
    "breed": lambda text: _E["breed"].fullmatch(text) is not None,
    "address": lambda text: _E["address"].fullmatch(text) is not None,
    "profession": _is_profession,
    "language": lambda text: _E["language"].fullmatch(text) is not None,
}
