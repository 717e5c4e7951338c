"""Ways to write an order so that it does not look like one: of letters, words, lines and marks."""

from __future__ import annotations

import base64
import codecs
import urllib.parse
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

CODE = (
    ".- -... -.-. -.. . ..-. --. .... .. .--- -.- .-.. -- -. --- .--. --.- .-. ... - ..- "
    "...- .-- -..- -.-- --.. ----- .---- ..--- ...-- ....- ..... -.... --... ---.. ----."
)
MORSE = dict(zip("abcdefghijklmnopqrstuvwxyz0123456789", CODE.split(" "), strict=True))


def morse(text: str) -> str:
    return " / ".join(
        " ".join(MORSE[letter] for letter in word if letter in MORSE)
        for word in text.lower().split()
    )


def base64_of(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def lines(text: str, size: int) -> str:
    return "\n".join(text[at : at + size] for at in range(0, len(text), size))


def within(before: str, behind: str) -> Callable[[str], str]:
    """Put marks around the third and fourth letter of each longer word."""
    return lambda text: " ".join(
        f"{word[:2]}{before}{word[2:4]}{behind}{word[4:]}" if len(word) > 4 else word
        for word in text.split()
    )


def styled(first: int, last: str = "a") -> Callable[[str], str]:
    """Write letters as others that begin somewhere else."""
    low, small = ord(last), last.islower()
    return lambda text: "".join(
        chr(first + ord(letter) - low) if low <= ord(letter) < low + 26 else letter
        for letter in (text.lower() if small else text.upper())
    )


PLAIN: dict[str, Callable[[str], str]] = {
    "as it is": str,
    "large letters": str.upper,
    "letters in turns": lambda text: "".join(
        letter.upper() if at % 2 else letter.lower() for at, letter in enumerate(text)
    ),
    "wide spaces": lambda text: text.replace(" ", "   "),
    "spaces that do not break": lambda text: text.replace(" ", "\u00a0"),
    "tabs": lambda text: text.replace(" ", "\t"),
    "a word on each line": lambda text: text.replace(" ", "\n"),
    "a word in each paragraph": lambda text: text.replace(" ", "\n\n"),
    "lines of Windows": lambda text: text.replace(" ", "\r\n"),
    "a quotation of words": lambda text: "> " + text.replace(" ", "\n> "),
    "a comment of words": lambda text: "# " + text.replace(" ", "\n# "),
    "a numbered list of words": lambda text: "\n".join(
        f"{number}. {word}" for number, word in enumerate(text.split(), 1)
    ),
    "a column of a table": lambda text: "\n".join(f"| {word} | x |" for word in text.split()),
    "cells of a table": lambda text: f"| {' | '.join(text.split())} |",
    "a cell of a table": lambda text: f"| a | b |\n|---|---|\n| note | {text} |",
    "escaped line breaks": lambda text: text.replace(" ", "\\n"),
    "emphasis in words": within("**", "**"),
    "tags in words": within("<b>", "</b>"),
    "comments in words": within("<!-- -->", ""),
    "a tag for each letter": lambda text: "".join(f"<span>{letter}</span>" for letter in text),
    "emphasis on words": lambda text: " ".join(f"**{word}**" for word in text.split()),
    "code of words": lambda text: " ".join(f"`{word}`" for word in text.split()),
    "an HTML comment": lambda text: f"<!-- {text} -->",
    "lines of an HTML comment": lambda text: f"<!--\n{text}\n-->",
    "a hidden element": lambda text: f'<div style="display:none">{text}</div>',
    "the text of an image": lambda text: f"![{text}](https://a.example/x.png)",
    "the title of a link": lambda text: f'[a](https://a.example "{text}")',
    "a reference of Markdown": lambda text: f"[//]: # ({text})",
    "quotes": lambda text: f'"{text}"',
    "a quotation": lambda text: f"> {text}",
    "a code block": lambda text: f"```\n{text}\n```",
    "a list": lambda text: f"- {text}",
    "a heading": lambda text: f"# {text}",
    "JSON": lambda text: f'{{"note": "{text}"}}',
    "pieces in quotes": lambda text: " + ".join(
        f'"{text[at : at + 5]}"' for at in range(0, len(text), 5)
    ),
}
"""Every reader sees them, or the marks around them."""

SIGNS: dict[str, Callable[[str], str]] = {
    "zero width": "\u200b".join,
    "joiners": "\u200d".join,
    "soft hyphens": "\u00ad".join,
    "turned around": "\u202e".join,
    "selectors between": "\ufe0f".join,
    "struck through": "\u0336".join,
    "marks above and below": lambda text: "".join(f"{sign}\u0301\u0323\u0335" for sign in text),
    "letters apart": " ".join,
    "letters apart, words further": lambda text: "   ".join(map(" ".join, text.split())),
    "letters apart by stops": lambda text: " ".join(map(".".join, text.split())),
    "letters apart by hyphens": lambda text: " ".join(map("-".join, text.split())),
}
"""Of letters of any language."""

LETTERS: dict[str, Callable[[str], str]] = {
    "lookalikes": lambda text: text.translate(
        str.maketrans("aeopcxyi", "\u0430\u0435\u043e\u0440\u0441\u0445\u0443\u0456")
    ),
    "full width": lambda text: "".join(
        chr(ord(sign) + 0xFEE0) if "!" <= sign <= "~" else sign for sign in text
    ),
    "in circles": styled(0x24D0),
    "in boxes": styled(0x1F130, "A"),
    "in black boxes": styled(0x1F170, "A"),
    "as flags": styled(0x1F1E6, "A"),
    "Fraktur": styled(0x1D51E),
    "small capitals": lambda text: text.lower().translate(
        str.maketrans(
            "abcdeghijklmnoprtuvwz",
            "\u1d00\u0299\u1d04\u1d05\u1d07\u0262\u029c\u026a\u1d0a\u1d0b\u029f\u1d0d\u0274"
            "\u1d0f\u1d18\u0280\u1d1b\u1d1c\u1d20\u1d21\u1d22",
        )
    ),
    "accents": lambda text: text.translate(str.maketrans("eoa", "éöå")),
    "digits for letters": lambda text: text.lower().translate(str.maketrans("aeiost", "431057")),
    "signs for letters": lambda text: text.lower().translate(str.maketrans("aeios", "@3!0$")),
    "words by underscores": lambda text: text.replace(" ", "_"),
    "words by stops": lambda text: text.replace(" ", "."),
    "upside down": lambda text: text.lower().translate(
        str.maketrans("abcdefghijklmnopqrstuvwxyz", "ɐqɔpǝɟƃɥᴉɾʞlɯuodbɹsʇnʌʍxʎz")
    )[::-1],
    "ROT13": lambda text: codecs.encode(text, "rot13"),
    "backwards": lambda text: text[::-1],
    "each word backwards": lambda text: " ".join(word[::-1] for word in text.split()),
    "Morse": morse,
    "Morse without spaces": lambda text: morse(text).replace(" / ", "/"),
    "ROT13 in base64": lambda text: base64_of(codecs.encode(text, "rot13")),
    "backwards in base64": lambda text: base64_of(text[::-1]),
    "base64 of Windows": lambda text: base64.b64encode(text.encode("utf-16-le")).decode(),
    "characters in Python": lambda text: "+".join(f"chr({ord(sign)})" for sign in text),
}
"""Of Latin letters."""

PACKED: dict[str, Callable[[str], str]] = {
    "base64": base64_of,
    "base64 of URLs": lambda text: base64.urlsafe_b64encode(text.encode()).decode(),
    "base64 in lines": lambda text: lines(base64_of(text), 40),
    "base64 in short lines": lambda text: lines(base64_of(text), 16),
    "base64 in pieces": lambda text: lines(base64_of(text), 24).replace("\n", '" + "'),
    "base64 twice": lambda text: base64_of(base64_of(text)),
    "base64 in hexadecimal": lambda text: base64_of(text).encode().hex(),
    "hexadecimal in base64": lambda text: base64_of(text.encode().hex()),
    "base64 by ROT13": lambda text: codecs.encode(base64_of(text), "rot13"),
    "base64 backwards": lambda text: base64_of(text)[::-1],
    "base64 in an address": lambda text: f"data:text/plain;base64,{base64_of(text)}",
    "base32": lambda text: base64.b32encode(text.encode()).decode(),
    "ASCII85": lambda text: base64.a85encode(text.encode(), adobe=True).decode(),
    "hexadecimal": lambda text: text.encode().hex(),
    "large hexadecimal": lambda text: text.encode().hex().upper(),
    "hexadecimal apart": lambda text: text.encode().hex(" "),
    "hexadecimal of C": lambda text: ", ".join(f"0x{octet:02x}" for octet in text.encode()),
    "one number": lambda text: f"0x{text.encode().hex()}",
    "numbers": lambda text: " ".join(map(str, text.encode())),
    "a list of numbers": lambda text: ", ".join(map(str, text.encode())),
    "octal escapes": lambda text: "".join(f"\\{octet:03o}" for octet in text.encode()),
    "escapes": lambda text: "".join(f"\\x{octet:02x}" for octet in text.encode()),
    "escapes of JSON": lambda text: "".join(f"\\u{ord(sign):04x}" for sign in text),
    "escapes of JavaScript": lambda text: "".join(f"\\u{{{ord(sign):x}}}" for sign in text),
    "escapes of Python": lambda text: "".join(f"\\U{ord(sign):08x}" for sign in text),
    "binary": lambda text: " ".join(f"{octet:08b}" for octet in text.encode()),
    "binary in one": lambda text: "".join(f"{octet:08b}" for octet in text.encode()),
    "entities": lambda text: "".join(f"&#{ord(sign)};" for sign in text),
    "percent escapes": lambda text: "".join(f"%{octet:02x}" for octet in text.encode()),
    "percent escapes twice": lambda text: urllib.parse.quote(
        "".join(f"%{octet:02x}" for octet in text.encode())
    ),
    "selectors": lambda text: (
        "x"
        + "".join(
            chr(0xFE00 + octet) if octet < 16 else chr(0xE0100 + octet - 16)
            for octet in text.encode()
        )
    ),
}
"""Of bytes, so of every language."""
