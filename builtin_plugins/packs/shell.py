"""Command lines of POSIX shells, read strictly: what is not known for sure cannot be read.

A small part of the language: simple commands, pipelines, lists, groups, ``for`` over words,
quotes, variables, ``$(...)``, redirections and here-documents. Whatever else is there (arithmetic,
backticks, other compound commands, functions, extended globs, ANSI-C quotes, process
substitution, characters that a shell or an eye may take for others) raises `UnreadableError`, so
that nobody judges a line by a reading of it that a shell does not share.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import product

UNKNOWN = "\0"
"""Stands in a word for text that is known only when the line runs."""

MAX_CHARS = 65_536
MAX_WORDS = 4_096
"""Words of one line, those of a loop's body once for each of its turns."""
MAX_DEPTH = 6
MAX_LOOP = 32
"""Turns of a loop, and words that braces make."""

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_ASSIGNED = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=")
_REDIRECTS = ("<<<", "<<-", "&>>", "<<", ">>", ">&", "<&", "&>", ">|", "<>", "<", ">")
_PLAIN = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./:=@%+,^~-!#")
_GLOB = frozenset("*?[]")
_ENDS = frozenset(" \t\n;&|<>()")
_RESERVED = re.compile(
    r"if|then|else|elif|fi|do|done|case|esac|while|until|for|select|function|coproc|in|[{}!]|\[\[|\]\]"
)
_SPECIAL = re.compile(
    r"[A-Z]|_proxy$|^(npm|pip|uv|yarn|cargo)_|^(c|f|man|mail|module_)?path$|^(aliases|argv|commands"
    r"|dirstack|functions|histchars|nameddirs|options|prompt|psvar|signals|status|watch)$"
)
"""Names of variables that a shell or a program takes for more than a word: each in capitals, and
those of zsh."""
_COMPOUND = re.compile(r"\{([^{}]*)\}")


class UnreadableError(ValueError):
    """A line cannot be read for sure; the message says what of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Word:
    """One word of a command, without its quotes.

    Attributes:
        text: The text, with `UNKNOWN` for what is known only when it runs. A ``~`` in front stands
            for the home folder where `home` is true.
        glob: Whether the shell puts names of files in its place.
        home: Whether it begins with the home folder.
        plain: Whether nothing of it is quoted or expanded.
        split: Whether what is not known of it may become several words.
        variables: The names of the variables that it takes.
        inner: The command lines whose output it takes.
    """

    text: str
    glob: bool = False
    home: bool = False
    plain: bool = False
    split: bool = False
    variables: tuple[str, ...] = ()
    inner: tuple[CommandList, ...] = ()

    @property
    def known(self) -> bool:
        """Whether its text is known before it runs."""
        return UNKNOWN not in self.text


@dataclass(frozen=True, slots=True, kw_only=True)
class Redirect:
    """Where a command reads from or writes to.

    Attributes:
        operator: As it is written, such as ``>>``.
        target: The file, descriptor or text; of a here-document what it ends with.
        lines: The lines of a here-document.
    """

    operator: str
    target: Word
    lines: list[str] = field(default_factory=list)

    @property
    def writes(self) -> bool:
        """Whether it writes to a file."""
        if self.operator in ("<", "<<", "<<-", "<<<", "<&"):
            return False
        return not (self.operator == ">&" and re.fullmatch(r"\d|-", self.target.text))

    @property
    def reads(self) -> bool:
        """Whether it reads a file."""
        return self.operator in ("<", "<>")


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A simple command.

    Attributes:
        words: Its words, the program first; none where it only assigns.
        assigned: Variables that are set for it.
        redirects: Where it reads and writes.
    """

    words: tuple[Word, ...]
    assigned: tuple[tuple[str, Word], ...] = ()
    redirects: tuple[Redirect, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ShellGroup:
    """Commands in brackets, or the turns of a loop.

    Attributes:
        script: The commands.
        words: The words that a loop goes through.
        redirects: Where they read and write.
    """

    script: CommandList
    words: tuple[Word, ...] = ()
    redirects: tuple[Redirect, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Pipeline:
    """A pipeline.

    Attributes:
        commands: Its members.
        joined: How it follows the one before: ``&&``, ``||`` or "".
        background: Whether nobody waits for it.
    """

    commands: tuple[Command | ShellGroup, ...]
    joined: str = ""
    background: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandList:
    """Pipelines, one after the other."""

    steps: tuple[Pipeline, ...]


def read(text: str) -> CommandList:
    """Return what a command line says.

    Raises:
        UnreadableError: It is too long, or holds something that is not known for sure.
    """
    if len(text) > MAX_CHARS:
        raise UnreadableError(f"it has more than {MAX_CHARS:,} characters")
    for char in text:
        if char in "\n\t" or " " <= char <= "~":
            continue
        if char.isascii() or unicodedata.category(char) in (
            "Cc",
            "Cf",
            "Co",
            "Cn",
            "Cs",
            "Zl",
            "Zp",
        ):
            raise UnreadableError(f"it holds the character U+{ord(char):04X}")
    try:
        return _LineReader(text).whole()
    except RecursionError:
        raise UnreadableError("it is nested too deep") from None


class _LineReader:
    """Reads one line, from its first character to its last."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._words = 0
        self._depth = 0
        self._values: dict[str, Word] = {}
        self._documents: list[tuple[str, bool, bool, list[str]]] = []

    def whole(self) -> CommandList:
        script = self._script("")
        if self._documents:
            raise UnreadableError("a here-document has no end")
        return script

    # -- lists ---------------------------------------------------------------

    def _script(self, end: str) -> CommandList:
        """Read up to `end`, which is passed: "" is the end of the text."""
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise UnreadableError("it is nested too deep")
        if self._documents:
            raise UnreadableError("a here-document that begins before a group")
        steps: list[Pipeline] = []
        joined = ""
        while True:
            self._skip(newlines=True)
            if self._ended(end):
                break
            step = Pipeline(commands=self._pipeline(), joined=joined)
            joined, step = self._connector(step, end)
            steps.append(step)
        if joined:
            raise UnreadableError(f"nothing follows {joined!r}")
        if self._documents:
            raise UnreadableError("a here-document has no end")
        if not steps and end:
            raise UnreadableError("a group is empty")
        self._depth -= 1
        return CommandList(steps=tuple(steps))

    def _ended(self, end: str) -> bool:
        if not end:
            return self._at >= len(self._text)
        if self._at >= len(self._text):
            raise UnreadableError(f"{end!r} is missing")
        if end == ")" and self._text[self._at] == ")":
            self._at += 1
            return True
        if end in ("done", "}") and self._is_word(end):
            self._at += len(end)
            return True
        return False

    def _is_word(self, word: str) -> bool:
        after = self._at + len(word)
        if not self._text.startswith(word, self._at):
            return False
        return after >= len(self._text) or self._text[after] in _ENDS

    def _connector(self, step: Pipeline, end: str) -> tuple[str, Pipeline]:
        self._skip()
        for sign in ("&&", "||"):
            if self._text.startswith(sign, self._at):
                self._at += 2
                return sign, step
        char = self._text[self._at : self._at + 1]
        if char == "&":
            self._at += 1
            return "", replace(step, background=True)
        if char == ";" and not self._text.startswith(";;", self._at):
            self._at += 1
        elif char not in ("", "\n") and not (char == ")" and end == ")"):
            raise UnreadableError(f"{char!r} stands where a command ends")
        return "", step

    def _pipeline(self) -> tuple[Command | ShellGroup, ...]:
        members = [self._member()]
        while True:
            self._skip()
            if not self._text.startswith("|", self._at) or self._text.startswith("||", self._at):
                return tuple(members)
            self._at += 2 if self._text.startswith("|&", self._at) else 1
            self._skip(newlines=True)
            members.append(self._member())

    # -- commands ------------------------------------------------------------

    def _member(self) -> Command | ShellGroup:
        while self._is_word("!"):
            self._at += 1
            self._skip()
        if self._text.startswith("((", self._at):
            raise UnreadableError("arithmetic")
        if self._text.startswith("(", self._at):
            self._at += 1
            return self._grouped(ShellGroup(script=self._script(")")))
        if self._is_word("{"):
            self._at += 1
            return self._grouped(ShellGroup(script=self._script("}")))
        if self._is_word("for"):
            self._at += 3
            return self._grouped(self._loop())
        return self._command()

    def _grouped(self, group: ShellGroup) -> ShellGroup:
        redirects: list[Redirect] = []
        while True:
            self._skip()
            redirect = self._redirect()
            if redirect is None:
                return replace(group, redirects=tuple(redirects))
            redirects.append(redirect)

    def _loop(self) -> ShellGroup:
        self._skip()
        name = _NAME.match(self._text, self._at)
        if name is None:
            raise UnreadableError("a loop without a name")
        if _SPECIAL.search(name.group()):
            raise UnreadableError(f"the loop sets {name.group()}, which may mean something")
        self._at = name.end()
        self._skip()
        if not self._is_word("in"):
            raise UnreadableError("a loop without words")
        self._at += 2
        words: list[Word] = []
        while True:
            self._skip()
            if self._at >= len(self._text) or self._text[self._at] in "\n;":
                break
            words.extend(self._word())
        self._at += 1
        self._skip(newlines=True)
        if not words or len(words) > MAX_LOOP or not self._is_word("do"):
            raise UnreadableError("a loop that is none of few words")
        self._at += 2
        if name.group() in self._values or self._documents:
            raise UnreadableError("a loop in a loop of the same name")
        begin = self._at
        steps: list[Pipeline] = []
        for word in words:
            self._at = begin
            self._values[name.group()] = word
            steps.extend(self._script("done").steps)
        del self._values[name.group()]
        return ShellGroup(script=CommandList(steps=tuple(steps)), words=tuple(words))

    def _command(self) -> Command:
        self._count(1)
        words: list[Word] = []
        assigned: list[tuple[str, Word]] = []
        redirects: list[Redirect] = []
        while True:
            self._skip()
            if self._at >= len(self._text) or self._text[self._at] in "\n;|)":
                break
            redirect = self._redirect()
            if redirect is not None:
                redirects.append(redirect)
                continue
            if self._text[self._at] == "&":
                break
            assignment = None if words else _ASSIGNED.match(self._text, self._at)
            if assignment is not None:
                if assignment.group(1) in self._values:
                    raise UnreadableError("a loop whose variable is set within it")
                self._at = assignment.end()
                assigned.append((assignment.group(1), self._value()))
                continue
            words.extend(self._word())
            if words[-1].text.startswith("{") and self._text[self._at : self._at + 1] in ("<", ">"):
                raise UnreadableError("a descriptor with a name")
            if len(words) == 1 and words[0].plain and _RESERVED.fullmatch(words[0].text):
                raise UnreadableError(f"the word {words[0].text!r}")
        if not words and not assigned and not redirects:
            raise UnreadableError("a command is empty")
        return Command(words=tuple(words), assigned=tuple(assigned), redirects=tuple(redirects))

    def _value(self) -> Word:
        if self._at >= len(self._text) or self._text[self._at] in _ENDS:
            if self._text.startswith("(", self._at):
                raise UnreadableError("an array")
            return Word(text="")
        words = self._word()
        if len(words) != 1:
            raise UnreadableError("braces in a value")
        return words[0]

    def _redirect(self) -> Redirect | None:
        at = self._at
        while at < len(self._text) and self._text[at].isdigit():
            at += 1
        sign = next((one for one in _REDIRECTS if self._text.startswith(one, at)), None)
        if sign is None or (sign.startswith("&") and at != self._at):
            return None
        self._at = at + len(sign)
        if self._text.startswith("(", self._at):
            raise UnreadableError("process substitution")
        self._skip()
        if self._text.startswith("!", self._at):
            raise UnreadableError("a target that some shells take for a part of the sign")
        quoted = self._text[self._at : self._at + 1] in ("'", '"', "\\")
        begin = self._at
        words = self._word() if self._at < len(self._text) else []
        if len(words) != 1 or (words[0].glob and sign not in ("<<", "<<-")):
            raise UnreadableError(f"{sign!r} without one target")
        if sign in ("<<", "<<-"):
            word = words[0]
            raw = self._text[begin : self._at]
            if not word.known or word.variables or re.sub(r"['\"\\]", "", raw) != word.text:
                raise UnreadableError("the end of a here-document")
            # One quote anywhere in the mark keeps the text from being expanded.
            lines: list[str] = []
            is_quoted = quoted or raw != word.text
            self._documents.append((word.text, is_quoted, sign == "<<-", lines))
            return Redirect(operator=sign, target=word, lines=lines)
        return Redirect(operator=sign, target=words[0])

    # -- words ---------------------------------------------------------------

    def _skip(self, *, newlines: bool = False) -> None:
        """Pass blanks and comments, and line ends where they mean nothing."""
        while self._at < len(self._text):
            char = self._text[self._at]
            if char in " \t":
                self._at += 1
            elif self._text.startswith("\\\n", self._at):
                self._continue()
            elif char == "#" and self._begins_word():
                end = self._text.find("\n", self._at)
                self._at = len(self._text) if end < 0 else end
            elif char == "\n" and newlines:
                self._at += 1
                self._read_documents()
            else:
                return

    def _continue(self) -> None:
        """Pass a line end that a backslash takes away, before anything else is made of the text.

        Without a blank in front it could join what stands on both sides to one sign: ``$``, a line
        end and ``(`` are a substitution.
        """
        self._within_line("\n")
        if self._at and self._text[self._at - 1] not in " \t\n":
            raise UnreadableError("a line that is continued within a word or a sign")
        self._at += 2

    def _within_line(self, text: str) -> None:
        """Refuse a line that goes on behind its end while a here-document waits for that."""
        if "\n" in text and self._documents:
            raise UnreadableError("a here-document that begins within a line of several")

    def _begins_word(self) -> bool:
        return self._at == 0 or self._text[self._at - 1] in _ENDS

    def _read_documents(self) -> None:
        """Pass the here-documents of the line that has just ended."""
        for mark, quoted, tabs, lines in self._documents:
            while True:
                if self._at >= len(self._text):
                    raise UnreadableError("a here-document has no end")
                end = self._text.find("\n", self._at)
                end = len(self._text) if end < 0 else end
                line = self._text[self._at : end]
                self._at = end + 1
                line = line.lstrip("\t") if tabs else line
                if line == mark:
                    self._at = min(self._at, len(self._text))
                    # The line end behind the mark ends the command as well.
                    break
                lines.append(line)
            if not quoted and any(sign in line for line in lines for sign in ("$", "`", "\\")):
                raise UnreadableError("a here-document that is expanded")
        self._documents = []

    def _word(self) -> list[Word]:
        """Read a word; braces may make several of it."""
        begin, parts = self._at, _Parts()
        while self._at < len(self._text):
            char = self._text[self._at]
            if char in _ENDS:
                if char == "(":
                    raise UnreadableError("a bracket in a word")
                break
            if char == "'":
                parts.add(self._until("'"), quoted=True)
            elif char == '"':
                self._double(parts)
            elif char == "\\":
                if self._text.startswith("\\\n", self._at):
                    self._continue()
                    continue
                self._at += 1
                escaped = self._text[self._at : self._at + 1]
                if not escaped or escaped.isalnum() or escaped in "._~/":
                    # A shell passes it over, and other shells take it for a part of a path.
                    raise UnreadableError("a backslash in front of what needs none")
                self._at += 1
                parts.add(escaped, quoted=True)
            elif char == "$":
                self._dollar(parts, quoted=False)
            elif char == "~" and self._at == begin:
                after = self._text[self._at + 1 : self._at + 2]
                if after and after != "/" and after not in _ENDS:
                    raise UnreadableError("the folder of somebody else")
                parts.home = True
                parts.add("~")
                self._at += 1
            elif (
                char == "=" and self._at == begin and self._text[begin + 1 : begin + 2] not in " \t"
            ):
                raise UnreadableError("a word that begins with =")
            elif char in _PLAIN or char in _GLOB or char in "{}":
                parts.glob = parts.glob or char in _GLOB
                parts.braces = parts.braces or char in "{}"
                parts.add(char)
                self._at += 1
            else:
                raise UnreadableError(f"the character {char!r} outside of quotes")
        if self._at == begin:
            raise UnreadableError(f"{self._text[begin : begin + 1]!r} stands where a word begins")
        words = parts.words()
        self._count(len(words))
        return words

    def _count(self, words: int) -> None:
        self._words += words
        if self._words > MAX_WORDS:
            raise UnreadableError(f"it has more than {MAX_WORDS:,} words")

    def _until(self, quote: str) -> str:
        end = self._text.find(quote, self._at + 1)
        if end < 0:
            raise UnreadableError("a quote has no end")
        found = self._text[self._at + 1 : end]
        self._within_line(found)
        self._at = end + 1
        return found

    def _double(self, parts: _Parts) -> None:
        self._at += 1
        parts.add("", quoted=True)
        while True:
            if self._at >= len(self._text):
                raise UnreadableError("a quote has no end")
            char = self._text[self._at]
            self._within_line(char)
            if char == '"':
                self._at += 1
                return
            if char == "`":
                raise UnreadableError("backticks")
            if char == "\\":
                after = self._text[self._at + 1 : self._at + 2]
                if after == "\n":
                    self._continue()
                    continue
                if after in ("$", "`", '"', "\\"):
                    parts.add(after, quoted=True)
                else:
                    parts.add("\\" + after, quoted=True)
                self._at += 2
            elif char == "$":
                self._dollar(parts, quoted=True)
            else:
                parts.add(char, quoted=True)
                self._at += 1

    def _dollar(self, parts: _Parts, *, quoted: bool) -> None:
        text, at = self._text, self._at + 1
        after = text[at : at + 1]
        if text.startswith("((", at):
            raise UnreadableError("arithmetic")
        if after == "(":
            self._at = at + 1
            parts.expand(inner=self._script(")"), quoted=quoted)
            return
        braced = after == "{"
        name = _NAME.match(text, at + braced)
        if name is not None:
            end = name.end()
            if braced and text[end : end + 1] != "}":
                raise UnreadableError("an expansion with braces")
            self._at = end + braced
            self._take(parts, name.group(), quoted=quoted)
        elif after in ("?", "$", "!", "#"):
            self._at = at + 1
            parts.expand(variable=after, quoted=quoted)
        elif braced or after.isdigit() or after in ("@", "*", "-"):
            raise UnreadableError("an expansion")
        elif not quoted and after in ("'", '"'):
            raise UnreadableError("ANSI-C quotes")
        elif after == "[":
            raise UnreadableError("arithmetic")
        else:
            parts.add("$", quoted=True)
            self._at = at

    def _take(self, parts: _Parts, name: str, *, quoted: bool) -> None:
        if self._text[self._at : self._at + 1] in (":", "["):
            raise UnreadableError("an expansion that some shells change by what follows it")
        value = self._values.get(name)
        if value is not None and value.known:
            special = re.search(r"[\s*?\[]", value.text) is not None and not value.glob
            if not quoted and (special or not value.text):
                raise UnreadableError(f"${name} without quotes")
            parts.glob = parts.glob or value.glob
            parts.home = parts.home or (value.home and not parts.text)
            if value.home and parts.text:
                raise UnreadableError(f"the home folder within a word, by ${name}")
            parts.add(value.text, quoted=True)
        elif name == "HOME" and not parts.text:
            parts.home = True
            parts.add("~", quoted=True)
        elif name == "PWD" and not parts.text:
            parts.add(".", quoted=True)
        else:
            parts.expand(variable=name, quoted=quoted)


class _Parts:
    """A word that is being read."""

    def __init__(self) -> None:
        self.text = ""
        self.glob = self.home = self.braces = False
        self._quoted = self._split = False
        self._variables: list[str] = []
        self._inner: list[CommandList] = []

    def add(self, text: str, *, quoted: bool = False) -> None:
        self.text += text
        self._quoted = self._quoted or quoted

    def expand(self, *, variable: str = "", inner: CommandList | None = None, quoted: bool) -> None:
        self.text += UNKNOWN
        self._quoted = True
        self._split = self._split or not quoted
        if variable:
            self._variables.append(variable)
        if inner is not None:
            self._inner.append(inner)

    def words(self) -> list[Word]:
        if self.braces and self.text == "{}" and not self._quoted:
            return [Word(text="{}", plain=True)]
        texts = list(self._braced()) if self.braces else [self.text]
        return [
            Word(
                text=text,
                glob=self.glob,
                home=self.home,
                plain=not (self._quoted or self.braces or self.glob or self.home),
                split=self._split,
                variables=tuple(self._variables),
                inner=tuple(self._inner),
            )
            for text in texts
        ]

    def _braced(self) -> Iterator[str]:
        if self.text in ("{", "}"):
            yield self.text
            return
        if not ("," in self.text or ".." in self.text):
            # A pair of braces without either stands for itself, such as in stash@{0}.
            yield self.text
            return
        left = _COMPOUND.sub("", self.text)
        pieces = _COMPOUND.split(self.text)
        choices = [one.split(",") if number % 2 else [one] for number, one in enumerate(pieces)]
        odd = any(len(one) < 2 or not all(one) for one in choices[1::2])
        if self._quoted or odd or "{" in left or "}" in left:
            raise UnreadableError("braces")
        made = [
            "".join(one) for _, one in zip(range(MAX_LOOP + 1), product(*choices), strict=False)
        ]
        if len(made) > MAX_LOOP:
            raise UnreadableError("braces that make many words")
        yield from made
