"""TOML: lines put in and taken out of the text, and values replaced within theirs."""

from __future__ import annotations

import json
import re
import tomllib
from typing import Any

from hookgate.builtin_plugins.inventory.writing import Edit, TranscodeError
from hookgate.settings import locate

_KEY = r"""(?:[A-Za-z0-9_-]+|"(?:[^"\\\n]|\\.)*"|'[^'\n]*')"""
_STRING = r""""(?!"")(?:[^"\\\n]|\\.)*"|'(?!'')[^'\n]*'"""
_LINE = re.compile(
    rf"(?P<key>[ \t]*{_KEY}(?:[ \t]*\.[ \t]*{_KEY})*[ \t]*=[ \t]*)"
    rf"(?P<value>{_STRING}|[^\s#\[{{\"'][^\s#]*)(?P<rest>[ \t]*(?:#[^\n]*)?\r?\n?)"
)
_INLINE = re.compile(rf"[ \t]*{_KEY}(?:[ \t]*\.[ \t]*{_KEY})*[ \t]*=[ \t]*\{{")
_HEADER = re.compile(r"[ \t]*\[(?!\[)")
_BARE = re.compile(r"[A-Za-z0-9_-]+")


def read(text: str) -> dict[str, Any]:
    """Return what a text says.

    Raises:
        TranscodeError: It is no TOML.
    """
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise TranscodeError(f"found no TOML ({error})") from None


def noted(text: str, path: tuple[str, ...], note: str) -> bool:
    """Whether the line of a key has the comment that was written when it was put in."""
    number = locate(text).get(path)
    return number is not None and _lines(text)[number - 1].rstrip().endswith(f"# {note}")


def change(text: str, edit: Edit) -> str:
    """Return the text with one key put in, replaced or taken out."""
    places = locate(text)
    lines = _lines(text)
    number = places.get(edit.path)
    if number is not None:
        match = _LINE.fullmatch(lines[number - 1])
        if match is None:
            raise _by_hand(edit)
        key, rest = match.group("key"), match.group("rest")
        lines[number - 1] = "" if edit.gone else f"{key}{_value(edit.value)}{rest}"
        return "".join(lines)
    if edit.gone:
        return text
    end = "\r\n" if "\r\n" in text else "\n"
    above = places.get(edit.path[:-1])
    if isinstance(edit.value, dict) and not (above and _inline(lines[above - 1])):
        return _appended(text, edit, end)
    if above is None:
        raise _by_hand(edit)
    line, said = lines[above - 1], f"{_name(edit.path[-1])} = {_value(edit.value)}"
    if _HEADER.match(line):
        note = f"  # {edit.note}" if edit.note else ""
        header = line if line.endswith("\n") else line + end
        lines[above - 1] = f"{header}{said}{note}{end}"
    elif match := _inline(line):
        empty = line[match.end() :].lstrip().startswith("}")
        gap = " " if empty else ","
        lines[above - 1] = f"{line[: match.end()]} {said}{gap}{line[match.end() :]}"
    else:
        raise _by_hand(edit)
    return "".join(lines)


def _lines(text: str) -> list[str]:
    # Not `splitlines`: in TOML, U+2028, U+2029 and U+0085 end no line.
    return re.findall(r"[^\n]*\n|[^\n]+", text)


def _inline(line: str) -> re.Match[str] | None:
    return _INLINE.match(line)


def _appended(text: str, edit: Edit, end: str) -> str:
    rows = [f"{_name(key)} = {_value(value)}" for key, value in edit.value.items()]
    head = f"[{'.'.join(map(_name, edit.path))}]" + (f"  # {edit.note}" if edit.note else "")
    gap = "" if not text or text.endswith("\n") else end
    blank = end if text.strip() else ""
    return f"{text}{gap}{blank}{end.join([head, *rows])}{end}"


def _name(key: str) -> str:
    return key if _BARE.fullmatch(key) else _value(key)


def _value(value: Any) -> str:
    """Return a value as TOML writes it; strings are JSON's, but for a control character."""
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007F")
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_value, value))}]"
    if isinstance(value, dict):
        pairs = ", ".join(f"{_name(key)} = {_value(below)}" for key, below in value.items())
        return f"{{ {pairs} }}" if pairs else "{}"
    if isinstance(value, bool | int | float):
        return json.dumps(value)
    raise TranscodeError(f"found a {type(value).__name__}, which TOML does not have")


def _by_hand(edit: Edit) -> TranscodeError:
    return TranscodeError(
        f"{'.'.join(edit.path)} stands where it cannot be changed alone: change it by hand, or "
        "give its table a header and each key a line of its own"
    )
