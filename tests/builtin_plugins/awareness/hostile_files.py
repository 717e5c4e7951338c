"""Files that somebody could put into a folder of cards to do harm."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.builtin_plugins.awareness.card_files import BODY, card_text

from hookgate.builtin_plugins.awareness.cards.folders import CARD_BYTES

OUTSIDE = "BYTES-FROM-OUTSIDE"
"""Stands in every file outside the folder, in its id too."""

GOOD = {
    "plain": card_text("plain").encode(),
    "bom": b"\xef\xbb\xbf" + card_text("bom").encode(),
    "crlf": card_text("crlf").replace("\n", "\r\n").encode(),
    "lone-cr": card_text("lone-cr").replace("\n", "\r").encode(),
    "long-line": card_text("long-line", body="word " * 10_000).encode(),
    "brackets-in-body": card_text("brackets-in-body", body="[" * 50_000).encode(),
    "yaml-in-body": card_text("yaml-in-body", body=f"{BODY}\n--- \n&a *a !!x\n...\n").encode(),
    "scripts": card_text("scripts", body="写发票。" * 60).encode(),
}
"""Cards that look odd and are none the worse for it, by id."""

# What YAML can do beyond saying something; each stands where a value does.
SURPRISES = {
    "anchor": "&a x",
    "alias": "*a",
    "anchor-alias": "[&a x, *a]",
    "alias-bomb": "[&a [x, x], &b [*a, *a], &c [*b, *b], &d [*c, *c]]",
    "self-alias": "&a [*a]",
    "merge": "{<<: {b: c}}",
    "merge-alias": "{<<: *a}",
    "tag": "!!str x",
    "object": "!!python/object/apply:os.system [id]",
    "object-new": "!!python/object/new:os.system [id]",
    "module": "!!python/module:os",
    "name": "!!python/name:os.system",
    "local-tag": "!x y",
    "verbatim-tag": "!<tag:yaml.org,2002:str> x",
    "binary": "!!binary aGk=",
    "set": "!!set {a, b}",
    "list-key": "{[a, b]: c}",
    "mapping-key": "{{a: b}: c}",
    "number-key": "{1: a}",
    "null-key": "{: a}",
    "double-key": "{a: b, a: c}",
    "depth": "[" * 9 + "]" * 9,
    "depth-of-mappings": "{a: " * 9 + "x" + "}" * 9,
    "open-bracket": "[a, b",
    "open-brace": "{a: b",
    "open-quote": '"a',
    "huge-integer": "9" * 400,
    "surrogate": '"\\ud800"',
    "beyond-unicode": '"\\UFFFFFFFF"',
    "control": '"\x07"',
    "directive-inside": "a\n%YAML 1.2\n---\nb: c",
    "second-document": "a\n...\nb: c",
    "tab": "\n\t- a",
    "values": f"[{'1,' * 600}]",
    "empty-lists": f"[{'[],' * 600}]",
    "empty-mappings": f"[{'{},' * 600}]",
    "pairs": f"[{'a:,' * 600}]",
    "reserved": "@a",
    "backtick": "`id`",
}

WRONG = ("[[x]]", "{a: {b: c}}", "true", "-1", "1e999", "'  '", "x" * 1100, "[1, 2]")
FIELDS = ("name", "description", "priority", "max_chars", "token_budget", "capability_id")
TRIGGERS = (
    *("router_tags", "keywords", "session_types", "confidence_threshold", "tools", "flags"),
    "inject_at",
)
IDS = (
    *("''", "' '", "a b", "../a", "/a", "-a", ".a", "a\\b", "7", "1.5", "null", "é", "a\\0b"),
    *("x" * 129, '"a\\nb"', "[a]", "{a: b}", "'a;b'", '"a\\u202eb"', "~"),
)
HEAD = "capability_id: x\ntriggers: {keywords: [x]}\n"


def texts() -> Iterator[tuple[str, bytes]]:
    """Yield names and bytes of files that are regular, and no cards."""
    for name, value in SURPRISES.items():
        yield f"yaml-{name}", card_text("x", more=f"name: {value}\n").encode()
        head = f"capability_id: x\ntriggers:\n  keywords: [a, {value}]\n"
        yield f"yaml-in-list-{name}", f"---\n{head}---\n{BODY}\n".encode()
        yield f"yaml-in-unknown-{name}", card_text("x", more=f"other: {value}\n").encode()
    for number, wrong in enumerate(WRONG):
        for key in FIELDS:
            head = HEAD.replace("capability_id: x\n", "") if key == "capability_id" else HEAD
            # 1e999 is no number that there is, so it is read as text.
            if wrong != "1e999" or key not in ("name", "description", "capability_id"):
                yield f"field-{key}-{number}", f"---\n{head}{key}: {wrong}\n---\n{BODY}\n".encode()
        for key in TRIGGERS:
            text = f"---\ncapability_id: x\ntriggers: {{{key}: {wrong}}}\n---\n{BODY}\n"
            yield f"trigger-{key}-{number}", text.encode()
        if not wrong.startswith("{"):
            text = f"---\ncapability_id: x\ntriggers: {wrong}\n---\n{BODY}\n"
            yield f"triggers-{number}", text.encode()
    for number, wrong in enumerate(IDS):
        yield f"id-{number}", card_text(wrong).encode()
    yield from _shapes()
    yield from _encodings()


def _shapes() -> Iterator[tuple[str, bytes]]:
    for size in (10, 1000, 8000, 50_000):
        for name, unit in {"square": "[", "brace": "{", "dash": "- ", "question": "? "}.items():
            head = unit * (size // len(unit))
            yield f"deep-{name}-{size}", f"---\n{head}\n---\n{BODY}\n".encode()
    keys = {
        "keys": "".join(f"k{number}: 1\n" for number in range(1000))[:8190].rpartition("\n")[0],
        "similar-keys": "".join(f"capability_id{number}: 1\n" for number in range(380)),
        "long-key": f"? {'k' * 8000}\n: 1",
        "long-value": f"capability_id: x\nname: {'word ' * 1500}",
        "comments": "#\n" * 4000,
        "blanks": "\n" * 8000,
        "escapes": 'capability_id: "' + "\\u0041" * 1200 + '"',
    }
    for name, head in keys.items():
        yield f"head-{name}", f"---\n{head}\n---\n{BODY}\n".encode()
    yield "head-too-large", f"---\n{HEAD}#{'x' * 9000}\n---\n{BODY}\n".encode()
    yield "file-empty", b""
    yield "file-blank", b" \n\n \n"
    yield "file-no-head", BODY.encode()
    yield "file-no-end", f"---\n{HEAD}{BODY}".encode()
    yield "file-fences", b"---\n" * 12_000
    yield "file-no-body", f"---\n{HEAD}---\n \n\t\n".encode()
    yield "file-too-large", card_text("x", body="x" * CARD_BYTES).encode()
    yield "file-of-brackets", b"[" * 50_000
    yield "file-of-returns", b"\r" * 50_000
    yield "both-spellings", card_text("x", more="max_chars: 9\nmaxChars: 9\n").encode()
    yield "directive", f"---\n%YAML 1.1\n---\n{HEAD}---\n{BODY}".encode()


def _encodings() -> Iterator[tuple[str, bytes]]:
    text = card_text("x", body=f"é{BODY}")
    for encoding in ("utf-16", "utf-16-le", "utf-16-be", "utf-32", "latin-1"):
        yield f"encoding-{encoding}", text.encode(encoding)
    for name, wrong in {
        "nul": b"\0",
        "overlong": b"\xc0\xaf",
        "surrogate": b"\xed\xa0\x80",
        "cut": b"\xe2\x82",
        "beyond": b"\xf4\x90\x80\x80",
        "fe": b"\xfe",
    }.items():
        yield f"bytes-{name}-body", text.encode() + wrong
        head = text.encode().replace(b"keywords", b"key" + wrong)
        yield f"bytes-{name}-head", head


def special(outside: Path) -> dict[str, Callable[[Path], object]]:
    """Return what makes files that are no regular files of the folder alone, by name.

    Args:
        outside: A folder beside it, on the same file system.
    """
    outside.mkdir()
    secret = outside / "secret.md"
    secret.write_text(card_text(OUTSIDE, body=f"{OUTSIDE} {BODY}"))
    return {
        "link-outside": lambda path: path.symlink_to(secret),
        "link-outside-relative": lambda path: path.symlink_to(f"../{outside.name}/secret.md"),
        "link-inside": lambda path: path.symlink_to("plain.md"),
        "link-dangling": lambda path: path.symlink_to("nothing"),
        "link-to-itself": lambda path: path.symlink_to(path.name),
        "link-to-folder": lambda path: path.symlink_to(outside),
        "link-to-link": lambda path: path.symlink_to("link-outside.md"),
        "link-to-zeros": lambda path: path.symlink_to("/dev/zero"),
        "link-to-environment": lambda path: path.symlink_to("/proc/self/environ"),
        "hard-link": lambda path: path.hardlink_to(secret),
        "pipe": os.mkfifo,
        "folder": lambda path: path.mkdir(),
        "folder-with-card": _folder_with_card,
        "socket": _socket,
        "sparse": lambda path: _sparse(path, 1 << 30),
        "just-too-large": lambda path: _sparse(path, CARD_BYTES + 1),
        "zeros": lambda path: _sparse(path, CARD_BYTES),
        "new\nline": lambda path: path.write_text(card_text("x")),
        "escape\x1b[2J": lambda path: path.write_text(card_text("x")),
        "turned\u202e": lambda path: path.write_text(card_text("x")),
        os.fsdecode(b"no-utf-8-\xff"): lambda path: path.write_text(card_text("x")),
    }


def _folder_with_card(path: Path) -> None:
    path.mkdir()
    (path / "card.md").write_text(card_text(OUTSIDE))


def _socket(path: Path) -> None:
    # The name of a socket has a most of some hundred bytes: so it is made where it is short.
    before = Path.cwd()
    os.chdir(path.parent)
    try:
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(path.name)
    finally:
        os.chdir(before)


def _sparse(path: Path, size: int) -> None:
    with path.open("wb") as opened:
        opened.truncate(size)
