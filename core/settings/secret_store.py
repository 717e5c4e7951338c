"""Secrets by name, and the masking of every one of them wherever text leaves.

A secret is looked for in the environment, by itself and as a file that it names, then in a key
file, then in the settings. What was found once is known from then on, and `SecretStore.redact`
masks it in each form in which a library is likely to write it.
"""

from __future__ import annotations

import base64
import html
import json
import os
import re
import threading
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, quote_plus

import orjson

from hookgate.core.domain.errors import ConfigError, Problem
from hookgate.core.domain.ports import Secrets
from hookgate.core.settings.key_file import read_key_file
from hookgate.core.settings.paths import expanded, users_home

if TYPE_CHECKING:
    from hookgate.core.settings.schema import Settings

MASK = "[redacted]"
"""What stands in the place of a secret."""

MIN_MASKED = 6
"""The shortest value that is masked, in characters.

A shorter one (a PIN, the word ``test``) occurs in ordinary text by chance. Masking it
would garble every log line, and the places that it garbles would give the value away.
"""

MIN_LINE = 16
"""The shortest line of a value of several lines that is masked by itself."""

MAX_FOLLOWED = 1024
"""Secrets whose changes are noticed; manifests of others may ask for as many as they like."""

MAX_HELD = 4
"""The longest end of a stream that is held back, in lengths of the longest form of a secret.
Only text that goes on beginning secrets, such as one letter over and over, comes to that."""

FILE = "_FILE"
"""Behind a variable's name: it holds the path of a file with the value, and not the value."""

CREDENTIALS = "CREDENTIALS_DIRECTORY"
"""The variable by which systemd says where it has put the credentials of a unit."""

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*")
_SECRET_NAME = re.compile(
    r"secret|token|passw|passphrase|api[_-]?key|access[_-]?key|credential|digest|authorization"
    r"|private|cookie"
    r"|(?:^|[._-])(?:keys?|pass|auth|dsn|database[_-]ur[il]|connection[_-]?string)$"
    r"|[._-]pwd$|[._-]auth[._-]",
    re.IGNORECASE,
)
# The beginnings of the keys of well-known services, addresses that are a key by themselves (whoever
# knows Slack's, Discord's and Teams' webhooks posts there), a key as OpenSSL writes it, who a URL
# is for (`user:password@`, or a key alone), and the password of a connection string.
_SECRET_VALUE = re.compile(
    r"\b(?:sk[-_]|rk_|gh[oprsu]_|github_pat_|glpat-|xox[a-z]-|xapp-|AKIA|ASIA|AIza|eyJ|hf_|npm_|pypi-"
    r"|dop_v1_|SG\.|ya29\.|Bearer |Basic )"
    r"|hooks\.slack\.com/\w+/\S|discord(?:app)?\.com/api/webhooks/\d+/\S|webhook\.office\.com/\S"
    r"|/bot\d{5,}:[\w-]{20}"
    r"|-----BEGIN |://[^/?#@\s]+@|(?i:\b(?:password|pwd|accountkey|sharedaccesskey)\s*=\s*\S)"
)
_SHOWN: ContextVar[str] = ContextVar("hookgate credential", default="")


@contextmanager
def masking(value: str) -> Iterator[None]:
    """Mask `value` in all that is redacted by this task within the block.

    For what strangers show: a secret or not, it is too much to be remembered.
    """
    before = _SHOWN.set(value if len(value) >= MIN_MASKED else "")
    try:
        yield
    finally:
        _SHOWN.reset(before)


class SecretStore:
    """The `Secrets` of a gateway. Its methods may be called from any thread.

    Args:
        settings: Gives the home folder, whose ``keys`` folder holds the key files, and
            the ``[secrets]`` section.
        environ: The environment.
    """

    def __init__(self, settings: Settings, environ: Mapping[str, str] | None = None) -> None:
        self._folder = settings.home / "keys"
        self._environ = os.environ if environ is None else environ
        self._configured = {
            name: value.get_secret_value() for name, value in settings.secrets.items()
        }
        self._lock = threading.Lock()
        self._known: set[str] = set()
        self._forms: _Forms | None = None
        self._sources: list[tuple[str, Callable[[str], str | None]]] = []
        self._followed: dict[str | Path, _Followed] = {}
        self._watchers: list[Callable[[str], None]] = []
        for value in self._configured.values():
            self.register(value)

    def look_in(self, folder: Path) -> None:
        """Look for key files there from now on, and say so: for a home that is only borrowed."""
        self._folder = folder

    def get(self, name: str) -> str | None:
        """Return the secret called `name`, or None where there is none.

        It is looked for in the environment (``openai_api_key`` is the variable
        ``OPENAI_API_KEY``; a dot or dash becomes ``_``), in the file that ``OPENAI_API_KEY_FILE``
        names, in systemd's ``$CREDENTIALS_DIRECTORY``, in the places that plugins have added, in
        the file ``keys/NAME`` of the home folder, and in ``[secrets]``. Nothing is kept: a key
        file that was replaced counts from the next call on.

        Raises:
            ConfigError: The name cannot be a file's, or a file is not safe to use, or one that
                the environment names is not there.
        """
        if not _NAME.fullmatch(name):
            raise ConfigError([_bad_name(name)])
        return self._follow(name, self._find(name))

    def read(self, path: Path) -> str | None:
        """Return what a key file holds that the settings name; None where it is empty.

        Raises:
            ConfigError: It is not safe to use or cannot be read.
        """
        return self._follow(path, read_key_file(path))

    def _find(self, name: str) -> str | None:
        value = self._of_environment(variable_of(name))
        if not value and (credentials := self._environ.get(CREDENTIALS)):
            value = read_key_file(Path(credentials) / name, missing_ok=True)
        for _, find in () if value else tuple(self._sources):
            value = value or find(name)
        if not value:
            value = read_key_file(self._folder / name, missing_ok=True)
        return value or self._configured.get(name)

    def _follow(self, asked: str | Path, value: str | None) -> str | None:
        if value:
            self.register(value)
        if asked not in self._followed and len(self._followed) < MAX_FOLLOWED:
            paths = [asked] if isinstance(asked, Path) else [*self._files_of(asked)]
            self._followed[asked] = _Followed(value or None, paths)
        return value or None

    def _files_of(self, name: str) -> Iterator[Path]:
        """Yield the files that may hold the secret called `name`."""
        if named := self._environ.get(f"{variable_of(name)}{FILE}"):
            yield expanded(named)
        if credentials := self._environ.get(CREDENTIALS):
            yield Path(credentials) / name
        yield self._folder / name

    def _of_environment(self, variable: str) -> str | None:
        """Return what `variable` holds, or the file that it names with ``_FILE`` behind it."""
        if value := self._environ.get(variable):
            return value
        naming = f"{variable}{FILE}"
        if not (named := self._environ.get(naming)):
            return None
        path = expanded(named)
        if not path.is_absolute():
            wrong = "a path that begins at the folder that you stand in"
            raise ConfigError([_misnamed(naming, named, wrong, "a whole path, such as /run/key")])
        try:
            return read_key_file(path)
        except ConfigError as error:
            (problem,) = error.problems
            told = _misnamed(naming, named, problem.found, problem.expected)
            raise ConfigError([told]) from None

    # -- what changes ------------------------------------------------------------

    def add_source(self, place: str, find: Callable[[str], str | None]) -> Callable[[], None]:
        """Look for secrets in another place as well; return what undoes it. See `Secrets`."""
        source = (place, find)
        self._sources.append(source)
        return lambda: self._sources.remove(source)

    def watch(self, told: Callable[[str], None]) -> Callable[[], None]:
        """Call `told` with the name of each secret that changes; return what undoes it."""
        self._watchers.append(told)
        return lambda: self._watchers.remove(told)

    def changed(self) -> tuple[Sequence[str], str]:
        """Look again for all that was asked for; it reads files.

        Returns:
            The names and paths of what has another value than when this was called last, and
            why something could not be looked for, or "". That stays as it was.
        """
        names, wrong = [], ""
        for asked, followed in tuple(self._followed.items()):
            stamp: list[Any] = []
            # Looked at every few seconds: a file is not read again that is as it was.
            for path in followed.paths:
                try:
                    status = os.stat(path)
                except OSError:
                    stamp.append(None)
                else:
                    stamp += (status.st_ino, status.st_mtime_ns, status.st_mode, status.st_uid)
            stamp += [find(asked) for _, find in self._sources if isinstance(asked, str)]
            if stamp == followed.stamp:
                continue
            try:
                value = self._find(asked) if isinstance(asked, str) else read_key_file(asked)
            except ConfigError as error:
                wrong = wrong or str(error)
                continue
            followed.stamp = stamp
            if (value or None) != followed.value:
                followed.value = value or None
                if value:
                    self.register(value)
                names.append(str(asked))
        return names, wrong

    def tell(self, names: Iterable[str]) -> None:
        """Tell those who watch that these have changed."""
        for name in names:
            for told in tuple(self._watchers):
                told(name)

    def how_to_set(self, name: str) -> tuple[str, ...]:
        """Say where `get` looks for the secret called `name`, as what to do, in its order."""
        path, home = self._folder / name, users_home()
        is_own = home != Path("/") and path.is_relative_to(home)
        file = f"~/{path.relative_to(home)}" if is_own else str(path)
        return (
            f"set {variable_of(name)}",
            *(place for place, _ in self._sources),
            f"write the key to {file} (mode 0600)",
            f"set `{name}` in [secrets]",
        )

    def register(self, value: str) -> None:
        """Make `value` known as a secret. One below `MIN_MASKED` characters is passed over."""
        forms = set(_forms(value))
        with self._lock:
            if not forms <= self._known:
                self._known |= forms
                self._forms = None

    def redact(self, text: str) -> str:
        """Return `text` with every known secret masked, in every form of it."""
        if len(text) < MIN_MASKED:
            return text  # no form of a secret is as short
        if shown := _SHOWN.get():
            text = text.replace(shown, MASK)
        if not self._known:
            return text
        pattern = (self._forms or self._compile()).pattern
        match = pattern.search(text)
        if match is None:  # as nearly always
            return text
        masked: list[str] = []
        end = 0
        # Matches may overlap: of two secrets that share characters, neither shows its rest.
        while match is not None:
            start, stop = match.span()
            if start >= end:
                masked += (text[end:start], MASK)
            end = max(end, stop)
            match = pattern.search(text, start + 1)
        masked.append(text[end:])
        return "".join(masked)

    def settle(self, text: str) -> tuple[str, str]:
        """Divide the end of a stream: what can go out, masked, and what must wait for more.

        What waits is the longest end that may be the beginning of a secret, so most texts
        leave nothing behind.

        Args:
            text: What waited so far, and what has come since.
        """
        if not self._known:
            return text, ""
        forms = self._forms or self._compile()
        if forms.starts.search(text) is None and not _SHOWN.get():
            return text, ""  # nothing in it begins a secret, as nearly always
        cut = forms.open_end(text)
        return self.redact(text[:cut]), text[cut:]

    def _compile(self) -> _Forms:
        with self._lock:
            # The longest form first, so that a secret that begins with another is masked whole.
            longest = sorted(self._known, key=lambda form: (-len(form), form))
            pattern = re.compile("|".join(map(re.escape, longest)))
            starts = _starts_of(longest)
            self._forms = _Forms(pattern, starts, tuple(sorted(longest)), len(longest[0]))
            return self._forms


@dataclass(slots=True)
class _Followed:
    """A secret that was asked for.

    Attributes:
        value: What it was when it was looked at last.
        paths: The files that may hold it.
        stamp: What those files and the sources of plugins were like then.
    """

    value: str | None
    paths: Sequence[Path]
    stamp: Sequence[Any] | None = None


@dataclass(frozen=True, slots=True)
class _Forms:
    """All forms of all known secrets, made ready.

    Attributes:
        pattern: Finds each of them.
        starts: Finds where one may begin, by its first three characters.
        ordered: All of them, in order.
        longest: The length of the longest one.
    """

    pattern: re.Pattern[str]
    starts: re.Pattern[str]
    ordered: tuple[str, ...]
    longest: int

    def open_end(self, text: str) -> int:
        """Return where the longest end of `text` starts with which a longer form begins."""
        first = max(0, len(text) - self.longest + 1)
        # Most texts end in nothing that begins a secret, and most of their characters begin none.
        ordered = self.ordered
        for found in self.starts.finditer(text, first):
            cut = found.start()
            part = text[cut:]
            # The forms that begin with `part` follow it at once in the order.
            after = bisect_right(ordered, part)
            if after < len(ordered) and ordered[after].startswith(part):
                break
        else:
            return len(text)
        # A whole secret that ends behind the cut waits, too: no part of it may go ahead.
        while match := self._across(text, cut):
            cut = match.start()
            if len(text) - cut > MAX_HELD * self.longest:
                return len(text)
        return cut

    def _across(self, text: str, cut: int) -> re.Match[str] | None:
        """Return the first secret that begins before `cut` and ends behind it."""
        match = self.pattern.search(text, max(0, cut - self.longest + 1))
        while match and match.start() < cut:
            if match.end() > cut:
                return match
            match = self.pattern.search(text, match.start() + 1)
        return None


def _starts_of(forms: Iterable[str]) -> re.Pattern[str]:
    """Return what finds where a text may begin a form: by three characters, or fewer at its end."""
    following: dict[str, set[str]] = {}
    for form in forms:
        following.setdefault(form[0], set()).add(form[1:3])
    starts = []
    for first, pairs in sorted(following.items()):
        rests = [re.escape(pair) for pair in sorted(pairs)]
        rests += [re.escape(pair[0]) + r"\Z" for pair in sorted(pairs)]
        starts.append(f"{re.escape(first)}(?={'|'.join(rests)}|\\Z)")
    return re.compile("|".join(starts))


def looks_secret(name: str, value: str) -> bool:
    """Whether a value may be a secret that nobody has made known, by its name and by its form.

    It is the one rule for what is shown of wrong settings and for what leaves the environment.

    Args:
        name: What it is called: a key of the settings, or a variable of the environment.
        value: The value; "" to go by the name alone.
    """
    return _SECRET_NAME.search(name) is not None or _SECRET_VALUE.search(value) is not None


def redact_json(secrets: Secrets, data: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return `data` with every known secret masked, at any depth."""
    texts: list[str] = []
    if not {str}.issuperset(map(type, data)):
        data = {str(key): item for key, item in data.items()}
    copy: dict[str, Any] = {}
    for key, item in data.items():
        kind = type(item)
        if kind is str:
            texts.append(item)
        elif kind not in _FIGURES:
            item = _copied(item, texts)
        copy[key] = item
    texts += copy
    # One look for all of its texts: nearly always none of them holds a secret.
    together = "\n".join(texts)
    redact = secrets.redact
    if redact(together) == together:
        return copy

    def clean(value: Any) -> Any:
        if isinstance(value, str):
            return redact(value)
        if isinstance(value, dict):
            return {clean(key): clean(item) for key, item in value.items()}
        if isinstance(value, list):
            return [clean(item) for item in value]
        return value

    cleaned: dict[str, Any] = clean(copy)
    return cleaned


def _copied(value: Any, texts: list[str]) -> Any:
    """Return a copy of JSON, and add its texts to `texts`."""
    if isinstance(value, dict):
        copy = {}
        for key, item in value.items():
            if isinstance(key, str):
                texts.append(key)
            kind = type(item)
            if kind is str:
                texts.append(item)
            elif kind not in _FIGURES:
                item = _copied(item, texts)
            copy[key] = item
        return copy
    if isinstance(value, list | tuple):
        listed = []
        for item in value:
            kind = type(item)
            if kind is str:
                texts.append(item)
            elif kind not in _FIGURES:
                item = _copied(item, texts)
            listed.append(item)
        return listed
    if isinstance(value, str):
        texts.append(value)
    return value


_FIGURES = frozenset((int, float, bool, type(None)))


def masked_json(secrets: Secrets, data: bytes) -> bytes:
    """Return a JSON object, as it is about to leave, with every known secret masked."""
    text = data.decode()
    if secrets.redact(text) == text:
        return data
    # Text by text: masked as a whole, a number or a quotation mark could go with a secret.
    return orjson.dumps(redact_json(secrets, orjson.loads(data)))


def variable_of(name: str) -> str:
    """Return the environment variable of the secret called `name`."""
    return re.sub(r"[.-]", "_", name).upper()


def _forms(value: str) -> Iterator[str]:
    """Yield the forms in which `value` may stand in a text."""
    pieces = [value.strip()]
    if "\n" in pieces[0]:
        # A key of several lines may be indented, or shown line by line.
        pieces += [line for line in map(str.strip, value.splitlines()) if len(line) >= MIN_LINE]
    for piece in pieces:
        if len(piece) < MIN_MASKED:
            continue
        yield piece
        for ascii_only in (True, False):
            # Twice, for JSON that is a text within JSON, as in the body of a failed request.
            once = json.dumps(piece, ensure_ascii=ascii_only)[1:-1]
            yield once
            yield json.dumps(once, ensure_ascii=ascii_only)[1:-1]
        yield repr(piece)[1:-1]
        yield html.escape(piece)
        yield html.escape(piece, quote=False)
        yield from _encoded(piece)


def _encoded(piece: str) -> Iterator[str]:
    raw = piece.encode("utf-8", "surrogatepass")
    # The last one is how a session's key is written.
    by_session = quote(raw, safe=" @.+-_~/#")
    for form in (quote(raw, safe=""), quote(raw), quote_plus(raw), by_session):
        yield form
        yield re.sub("%[0-9A-F]{2}", lambda match: match.group().lower(), form)
    yield raw.hex()
    yield repr(raw)[2:-1]
    # In base64 a byte's place modulo 3 decides how it is written, and a secret seldom begins
    # the encoded text: `Authorization: Basic` encodes `user:secret`. The characters at both
    # ends that depend on the neighbours as well are left out.
    for offset in range(3):
        encoded = base64.b64encode(b"\0" * offset + raw).decode()
        first = -(-offset * 8 // 6)
        last = (offset + len(raw)) * 8 // 6
        yield encoded[first:last]
        yield encoded[first:last].translate(str.maketrans("+/", "-_"))


def _bad_name(name: str) -> Problem:
    return Problem(
        key="secrets",
        found=f"a secret called {name[:80]!r}",
        expected="a name of letters, digits, `_`, `-` and `.` that begins with none of `-` and `.`",
    )


def _misnamed(variable: str, path: str, found: str, expected: str) -> Problem:
    expected = f"{expected} ({variable} in the environment names it)"
    return Problem(file=path, key=variable, found=found, expected=expected)
