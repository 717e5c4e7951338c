"""From a message to the statements in it: without quotations, pasted texts and questions."""

from __future__ import annotations

import re
from functools import cache

from hookgate.builtin_plugins.memory.facts.extraction.vocabulary import vocabulary

MAX_TEXT = 3000
"""Characters that somebody types. A longer message carries something pasted: only its first
paragraph is read."""

MAX_PARAGRAPH = 500
MAX_SENTENCE = 300
MAX_SENTENCES = 40

CAPITAL = "[A-ZÀ-ÖØ-ÞĀ-ŽΑ-ΩЀ-Я]"
"""A letter that a name may begin with, in the scripts that write names large."""

_HIDDEN = "\ufffc"
"""Stands where something was left out; no pattern fits across it."""

_CODE = re.compile(r"```.*?(?:```|\Z)|`[^`\n]{1,200}`", re.DOTALL)
_QUOTED_LINE = re.compile(
    r"^[ \t]*(?:>|\||\$ |#|\* |"
    r"(?!Update|Correction|Note|Fact|Remember|Reminder|Actually|Sorry|News|Hi|Hello)"
    r"[A-Z][a-z-]{1,20}: ).*$",
    re.MULTILINE,
)
_ADDRESS = re.compile(r"https?://\S{1,500}|www\.\S{1,500}")
_QUOTE = re.compile(r"[\"“”„«»]([^\"“”„«»\n]{1,2000})[\"“”„«»]|(?<!\w)'([^'\n]{1,200})'(?!\w)")
_OWN_WORDS = re.compile(
    r"\b(?:i|i'm|my|we|our|me|is|are|am|was|has|have|lives|live)\b", re.IGNORECASE
)
_HANDED_OVER = re.compile(
    r"\b(?:translate|proofread|summari[sz]e|rewrite|rephrase|paraphrase|correct|grammar|e-?mail|"
    r"letter|story|poem|song|lyrics|article|text|quote|essay|wrote|said|says|reads|transcript|"
    r"log|message|review|sentence|following|paragraph|dialogue|script|novel|example)\b"
    r"[^.!?\n]{0,60}:(?:\s|$)",
    re.IGNORECASE,
)
_SHORT = frozenset(
    [
        "mr",
        "mrs",
        "ms",
        "dr",
        "prof",
        "st",
        "vs",
        "etc",
        "jr",
        "sr",
        "no",
        "e.g",
        "i.e",
        "approx",
        "jan",
        "feb",
        "mar",
        "apr",
        "jun",
        "jul",
        "aug",
        "sep",
        "sept",
        "oct",
        "nov",
        "dec",
    ]
)
_STOP = re.compile(r"(?:[.!?…]+|[;\n])(?:[\"')\]]*)(?=\s|$)|\n+")
_TAG = re.compile(
    r"^(?:right|correct|true|ok|okay|yes|no|remember|huh|eh|is it|(?:isn|aren|don|doesn|am|wasn|"
    r"did|haven)(?:['’]?n?['’]t)? .{1,10}|am i not|do i|is that right|am i right)$",
    re.IGNORECASE,
)
_REPORTED = re.compile(
    r"\b(?:said|says|saying|told|tells|wrote|writes|asked|asks|claims|claimed|thinks|thought|believes|"
    r"dreamed|dreamt|quoted|pretends?|shouted|whispered|sings)(?: (?:me|us|him|her|them|that))?$",
    re.IGNORECASE,
)
_STARTS = (
    r"(?:(?:now|then|also|currently|today|sometimes|luckily|actually|since \w+|in \w+|last \w+) )?"
    r"(?:i|i['’](?:m|ve|d|ll)|my|we|we['’](?:re|ve|ll)|our|she|he|she['’]s|he['’]s|it['’]s|they|"
    r"they['’]re|her|his|its|their|you|you['’]re|your|everyone|"
    r"everybody|people|do you|can you|could you|what|where|who|how|"
    r"is|are|will|would|should|please)\b"
)
_VERBS = (
    r"(?:now |also |really |currently |just |recently |still |no longer |do not |don['’]t )?"
    r"(?:live|lives|work|works|like|likes|love|loves|hate|hates|prefer|prefers|have|has|am|is|are|"
    r"moved|quit|left|enjoy|enjoys|play|plays|speak|speaks|study|studies|started|joined|got|"
    r"used to|want|wants|was born|grew up|dislike|dislikes|bought|adopted|drive|drives|became|"
    r"lived|worked)\b"
)
_JOINT = re.compile(
    rf"(?:\s*,)?\s+(?:and|but|so|because|while|whereas|although|though|yet|or)\s+(?={_STARTS})"
    rf"|\s*[,(—–]\s*(?={_STARTS})|\s+-\s+(?={_STARTS})"
    rf"|(?P<carry>(?:\s*,)?\s+(?:and|but)\s+|\s*,\s*)(?:then |so )?(?={_VERBS})",
    re.IGNORECASE,
)
_NAMED_JOINT = re.compile(
    rf"(?:\s*,)?\s+(?:and|but|while)\s+(?={CAPITAL}[\w'’-]+(?: {CAPITAL}[\w'’-]+)? "
    r"(?:is|lives|works|likes|loves|hates|has|was|moved|plays|studies|speaks|got)\b)"
)
_SUBJECT = re.compile(
    rf"^(?:.{{0,30}}, )?(?P<subject>i|we|she|he|they|my (?:\w+ )?\w+|{CAPITAL}[\w'’-]+)"
    r"(?:['’](?:m|ve|s|re))?\b",
    re.IGNORECASE,
)


def any_of(section: str, key: str) -> str:
    """Return a group for a regular expression that fits the words of a list, longest first."""
    words = sorted(vocabulary().words[section][key], key=len, reverse=True)
    return "(?:" + "|".join(re.escape(word).replace("'", "['’]") for word in words) + ")"


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
    for hidden in (_CODE, _QUOTED_LINE, _ADDRESS):
        kept = hidden.sub(_HIDDEN, kept)
    kept = _QUOTE.sub(_unquoted, kept)
    handed = _HANDED_OVER.search(kept)
    if handed:
        kept = kept[: handed.start()]
    return [one for one in _split(kept) if _unclaimed().match(one) is None]


def _unquoted(match: re.Match[str]) -> str:
    inside = match[1] or match[2] or ""
    # A name in quotation marks is a name; more words in them are somebody's.
    if len(inside.split()) <= 3 and not _OWN_WORDS.search(inside):
        return inside.rstrip(".,")
    return _HIDDEN


def _split(text: str) -> list[str]:
    found: list[str] = []
    begin = 0
    for match in [*_STOP.finditer(text), None]:
        end = match.start() if match else len(text)
        sign = match[0] if match else ""
        if match and sign.startswith("."):
            word = text[max(begin, end - 8) : end].rpartition(" ")[2].casefold()
            if word in _SHORT or (len(word) == 1 and word != "i" and text[end - 1].isupper()):
                continue
        sentence = text[begin:end].strip(" \t\r\n\ufffc-*•\"'()")
        begin = match.end() if match else end
        if 3 < len(sentence) <= MAX_SENTENCE:
            found.append(sentence + ("?" if "?" in sign else ""))
        if len(found) >= MAX_SENTENCES:
            break
    return found


@cache
def _unclaimed() -> re.Pattern[str]:
    opening = any_of("openings", "plain")
    return re.compile(
        rf"(?:{opening}\s*,?\s+)?{any_of('unclaimed', 'words')}\b(?!\s*$)", re.IGNORECASE
    )


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
        if _TAG.match(last) or (parts and _TAG.match(parts[-1][0].rpartition(",")[2].strip())):
            return []
    return _with_subjects(parts)


def _joints(sentence: str) -> list[re.Match[str]]:
    found = [*_JOINT.finditer(sentence), *_NAMED_JOINT.finditer(sentence)]
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
            match = _SUBJECT.match(clause)
            subject = match["subject"] if match else ""
        reported = _REPORTED.search(clause) is not None
        if clause and not reported:
            clauses.append(clause)
    return clauses
