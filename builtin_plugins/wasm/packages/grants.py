"""Grants: all that a guest may do beside computing, and what they prove about its tools."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import PurePosixPath
from typing import Final, Literal, TypeAlias

from hookgate import FLAG_NAMES, Flags
from hookgate.kit.modules import httpx
from hookgate.kit.url_grants import Grant as UrlGrant
from hookgate.kit.url_grants import Grants as UrlGrants
from hookgate.kit.url_grants import NotGrantedError, Target
from hookgate.settings import looks_secret, nearest

METHODS: Final = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")

Place: TypeAlias = Literal["header", "body", "path"]
PLACES: Final[tuple[Place, ...]] = ("header", "body", "path")

KINDS: Final = ("log", "clock", "random", "http", "store", "env", "fs-read", "secret")

MOST_GRANTS = 64
"""Grants of one plugin: a person reads all of them before accepting."""

GRANT_CHARS = 500

DEFAULT_QUOTA = 1024 * 1024
MAX_QUOTA = 64 * 1024 * 1024
"""Bytes of a namespace where a grant does not say, and at most."""

_NAMESPACE = re.compile(r"[a-z][a-z0-9_-]{0,31}")
_ENV = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")
_SECRET = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,127}")
_SIZE = re.compile(r"([1-9][0-9]{0,6})(KB|MB)")
_HOST = re.compile(r"[^/\s:@]+(:[0-9]{1,5})?|\[[0-9A-Fa-f:.]+\](:[0-9]{1,5})?")
_SYSTEM = tuple(map(PurePosixPath, ("/proc", "/sys", "/dev", "/run")))


class GrantError(ValueError):
    """A grant does not follow the grammar, or is none that this kind of plugin may have."""


@dataclass(frozen=True, slots=True)
class PlainGrant:
    """``log``, ``clock`` or ``random``."""

    text: str


@dataclass(frozen=True, slots=True)
class HttpGrant:
    """Requests that the host sends: these methods, to what this pattern names.

    Attributes:
        query: Whether the guest may write a query.
    """

    text: str
    methods: tuple[str, ...]
    pattern: UrlGrant
    query: bool

    @property
    def is_one_url(self) -> bool:
        """Whether all that it names was written by whoever granted it, to the last character."""
        return not (self.query or self.pattern.prefix or self.pattern.below)


@dataclass(frozen=True, slots=True)
class StoreGrant:
    """A namespace of keys and values, and how many bytes it may hold."""

    text: str
    namespace: str
    quota: int


@dataclass(frozen=True, slots=True)
class EnvGrant:
    """One value of the gateway's environment."""

    text: str
    name: str


@dataclass(frozen=True, slots=True)
class FolderGrant:
    """A folder that the guest may read, all below it included, under the same path."""

    text: str
    folder: PurePosixPath


@dataclass(frozen=True, slots=True)
class SecretGrant:
    """A secret that the host puts into requests: at these places, for what this pattern names."""

    text: str
    name: str
    places: tuple[Place, ...]
    pattern: UrlGrant


Grant: TypeAlias = PlainGrant | HttpGrant | StoreGrant | EnvGrant | FolderGrant | SecretGrant


def parse_grant(text: str) -> Grant:
    """Read one grant.

    Raises:
        GrantError: It does not follow the grammar; says what was found and expected.
    """
    if len(text) > GRANT_CHARS:
        raise GrantError(
            f"found a grant of {len(text):,} characters, expected at most {GRANT_CHARS}"
        )
    kind, colon, rest = text.partition(":")
    if kind in ("log", "clock", "random") and not colon:
        return PlainGrant(text)
    readers: dict[str, Callable[[str, str], Grant]] = {
        "http": _http,
        "store": _store,
        "env": _env,
        "fs-read": _folder,
        "secret": _secret,
    }
    if kind in readers and colon:
        return readers[kind](text, rest)
    if kind in KINDS:
        expected = f"`{kind}` alone" if colon else f"`{kind}:` and what of it"
        raise GrantError(f"found the grant {_shown(text)}, expected {expected}")
    near = nearest(kind, KINDS)
    hint = f"; did you mean `{near}`?" if near else ""
    raise GrantError(
        f"found the unknown grant {_shown(text)}, expected one of "
        f"{', '.join(KINDS[:3])}, {', '.join(f'{one}:' for one in KINDS[3:])}{hint}"
    )


def _shown(text: str) -> str:
    shown = ascii(text)
    return shown if len(shown) <= 120 else f"{shown[:117]}..."


def _target(text: str, target: str) -> UrlGrant:
    if "://" not in target and _HOST.fullmatch(target):
        target = f"https://{target}/*"
    try:
        return UrlGrant.parse(target)
    except ValueError as error:
        raise GrantError(
            f"found the grant {_shown(text)}: {error}; a host alone, such as "
            "api.example.com, stands for all of it by https"
        ) from None


def _http(text: str, rest: str) -> HttpGrant:
    words, space, target = rest.rpartition(" ")
    methods = tuple(words.split(",")) if space else METHODS
    for method in methods:
        if method not in METHODS:
            near = nearest(method.upper(), METHODS)
            hint = f"; did you mean `{near}`?" if near else ""
            raise GrantError(
                f"found the method {_shown(method)} in the grant {_shown(text)}, expected "
                f"one of {', '.join(METHODS)}, joined by commas{hint}"
            )
    if len(set(methods)) != len(methods):
        raise GrantError(f"found a method twice in the grant {_shown(text)}, expected each once")
    bare = target.removesuffix("?*")
    pattern = _target(text, bare)
    if bare != target and pattern.prefix:
        raise GrantError(
            f"found ?* in the grant {_shown(text)}, expected it behind one fixed path: below a "
            "path that ends in /* the query is free"
        )
    return HttpGrant(text, methods, pattern, query=bare != target or pattern.prefix)


def _store(text: str, rest: str) -> StoreGrant:
    namespace, equals, size = rest.partition("=")
    if not _NAMESPACE.fullmatch(namespace):
        raise GrantError(
            f"found the grant {_shown(text)}, expected store:NAMESPACE or store:NAMESPACE=1MB, "
            "the namespace in lower-case letters, digits, - and _"
        )
    if not equals:
        return StoreGrant(text, namespace, DEFAULT_QUOTA)
    match = _SIZE.fullmatch(size)
    quota = int(match[1]) * {"KB": 1024, "MB": 1024 * 1024}[match[2]] if match else 0
    if not 0 < quota <= MAX_QUOTA:
        raise GrantError(
            f"found the size {_shown(size)} in the grant {_shown(text)}, expected such as 200KB "
            f"or 4MB, at most {MAX_QUOTA // 1024 // 1024}MB"
        )
    return StoreGrant(text, namespace, quota)


def _env(text: str, rest: str) -> EnvGrant:
    if not _ENV.fullmatch(rest):
        raise GrantError(
            f"found the grant {_shown(text)}, expected env:NAME, one name of the environment"
        )
    if looks_secret(rest, ""):
        raise GrantError(
            f"found the grant {_shown(text)}, whose name is that of a secret, which no guest sees: "
            f"expected secret:{rest.lower()} -> header @ URL, and the host puts it into requests"
        )
    return EnvGrant(text, rest)


def _folder(text: str, rest: str) -> FolderGrant:
    folder = PurePosixPath(rest)
    # Two slashes at the beginning may mean another place (POSIX, 4.13), and mean the same here.
    whole = rest.startswith("/") and not rest.startswith("//")
    if not whole or str(folder) != rest or ".." in folder.parts or "\0" in rest:
        raise GrantError(
            f"found the grant {_shown(text)}, expected fs-read:/folder: an absolute path without "
            "`..`, and without a slash at its end"
        )
    if len(folder.parts) < 2 or any(folder.is_relative_to(one) for one in _SYSTEM):
        raise GrantError(
            f"found the grant {_shown(text)}, expected a folder of data: not the root, and "
            f"nothing below {', '.join(map(str, _SYSTEM))}"
        )
    return FolderGrant(text, folder)


def _secret(text: str, rest: str) -> SecretGrant:
    match = re.fullmatch(r"(\S+) -> ([a-z,]+) @ (\S+)", rest)
    if match is None or not _SECRET.fullmatch(match[1]):
        raise GrantError(
            f"found the grant {_shown(text)}, expected secret:NAME -> header @ "
            "https://api.example.com/*, with header, body or path, or several joined by commas"
        )
    places: list[Place] = []
    for word in match[2].split(","):
        place = next((one for one in PLACES if one == word), None)
        if place is None or place in places:
            raise GrantError(
                f"found the place {_shown(word)} in the grant {_shown(text)}, expected header, "
                "body and path, each at most once; never the query, which logs keep"
            )
        places.append(place)
    return SecretGrant(text, match[1], tuple(places), _target(text, match[3]))


@dataclass(frozen=True)
class Granted:
    """All grants of one plugin, read.

    Attributes:
        grants: In the order in which they were written.
    """

    grants: tuple[Grant, ...] = ()

    @classmethod
    def parse(cls, texts: Sequence[str]) -> Granted:
        """Read them.

        Raises:
            GrantError: One of them does not follow the grammar, or stands there twice.
        """
        if len(texts) > MOST_GRANTS:
            raise GrantError(f"found {len(texts)} grants, expected at most {MOST_GRANTS}")
        grants = tuple(parse_grant(text) for text in texts)
        namespaces = [one.namespace for one in grants if isinstance(one, StoreGrant)]
        for name in {*texts, *namespaces}:
            if max(list(texts).count(name), namespaces.count(name)) > 1:
                raise GrantError(f"found {_shown(name)} granted twice, expected each grant once")
        return cls(grants)

    @property
    def texts(self) -> tuple[str, ...]:
        """The grants as they were written."""
        return tuple(one.text for one in self.grants)

    @cached_property
    def http(self) -> tuple[HttpGrant, ...]:
        """Where requests may go."""
        return tuple(one for one in self.grants if isinstance(one, HttpGrant))

    @cached_property
    def stores(self) -> dict[str, StoreGrant]:
        """The namespaces of the store, by name."""
        return {one.namespace: one for one in self.grants if isinstance(one, StoreGrant)}

    @cached_property
    def env(self) -> tuple[EnvGrant, ...]:
        """The values of the environment."""
        return tuple(one for one in self.grants if isinstance(one, EnvGrant))

    @cached_property
    def folders(self) -> tuple[FolderGrant, ...]:
        """The folders that may be read."""
        return tuple(one for one in self.grants if isinstance(one, FolderGrant))

    @cached_property
    def secrets(self) -> tuple[SecretGrant, ...]:
        """The secrets that are put into requests."""
        return tuple(one for one in self.grants if isinstance(one, SecretGrant))

    def has(self, name: str) -> bool:
        """Whether ``log``, ``clock`` or ``random`` is granted."""
        return any(isinstance(one, PlainGrant) and one.text == name for one in self.grants)

    @cached_property
    def imports(self) -> frozenset[str]:
        """The host functions that a guest with these grants may import."""
        granted = {name for name in ("log", "clock", "random") if self.has(name)}
        granted |= {"http"} if self.http else set()
        granted |= {"store"} if self.stores else set()
        granted |= {"env"} if self.env else set()
        return frozenset(granted)

    @cached_property
    def patterns(self) -> tuple[str, ...]:
        """The URL patterns, for the way out; methods are checked before it is asked."""
        return tuple(dict.fromkeys(one.pattern.text for one in self.http))

    @cached_property
    def _by_method(self) -> dict[str, UrlGrants]:
        return {
            method: UrlGrants([one.pattern.text for one in self.http if method in one.methods])
            for method in METHODS
        }

    def check(self, method: str, url: httpx.URL) -> Target:
        """Return where a request goes.

        Raises:
            NotGrantedError: No grant names the URL with this method.
        """
        by = self._by_method.get(method)
        if by is None:
            raise NotGrantedError(
                f"its method is {_shown(method)}: expected one of {', '.join(METHODS)}"
            )
        try:
            target = by.check(url)
        except NotGrantedError as error:
            others = [one for one, grants in self._by_method.items() if _covers(grants, url)]
            if others:
                raise NotGrantedError(
                    f"its method is {method}: expected {' or '.join(others)}"
                ) from None
            raise error
        covering = [
            one for one in self.http if method in one.methods and one.pattern.covers(target)
        ]
        if target.query and not any(one.query for one in covering):
            raise NotGrantedError(
                f"it has a query: expected none, since {covering[0].text} names one fixed path; "
                "?* behind it grants any query"
            )
        return target

    def inserts(self, name: str, place: Place, url: httpx.URL) -> bool:
        """Whether the secret called `name` may stand at `place` of a request to `url`."""
        return any(
            one.name == name and place in one.places and _covers(UrlGrants([one.pattern.text]), url)
            for one in self.secrets
        )


def _covers(grants: UrlGrants, url: httpx.URL) -> bool:
    try:
        grants.check(url)
    except NotGrantedError:
        return False
    return True


# -- What the grants of a guest prove about its tools ----------------------------

# A guest reaches the world through its grants and by no other way. What no grant allows cannot
# happen, and what one allows has to be counted as done. Text that a guest keeps in its store
# carries the taint of the turn that brought it, so a namespace alone is no external data.
#
# One thing grants do not prove: what a request changes at the other side. That a GET changes
# nothing is the other side's word, and many a GET sends a message. So wherever a guest writes any
# part of what it asks for, whether a tool writes or has something act later rests on its
# declaration. What is left is a request by `SAFE` methods to one fixed path without query and
# body, of which a guest decides when it is sent and which headers, none of them a method: whoever
# granted it has read it.

SAFE = frozenset(("GET", "HEAD", "OPTIONS"))
"""Methods by which a caller asks for no change (RFC 9110, 9.2.1)."""


def flags_of(granted: Granted, declared: Mapping[str, bool | None]) -> Flags:
    """Return the flags of a tool, each proven one with its ground.

    Args:
        granted: The grants of its plugin.
        declared: What the manifest declares, by the flag's name.
    """
    known = _known(granted)
    values = {name: known[name][0] if name in known else declared.get(name) for name in FLAG_NAMES}
    return Flags(
        **values,
        proven=frozenset(known),
        grounds=tuple((name, ground) for name, (_, ground) in known.items()),
    )


def contradictions(granted: Granted, declared: Mapping[str, bool | None]) -> list[str]:
    """Return what a declaration says and the grants disprove, in sentences."""
    return [
        f"`{name} = {_lower(declared[name])}` is declared, and the grants prove {_lower(value)} "
        f"({ground})"
        for name, (value, ground) in _known(granted).items()
        if declared.get(name) is not None and declared[name] != value
    ]


def _known(granted: Granted) -> dict[str, tuple[bool, str]]:
    """Return what the grants prove: the flag's name, its value and the ground."""
    sends = [one.text for one in granted.http]
    reads = [*sends, *(one.text for one in granted.folders), *(one.text for one in granted.env)]
    writes = [one.text for one in granted.stores.values()]
    known = {
        "reads_external_data": (bool(reads), _ground(reads, "no grant http:, fs-read: or env:")),
        "sends_externally": (bool(sends), _ground(sends, "no grant http:")),
        "executes_privileged": (False, "no grant runs commands"),
    }
    fixed = all(SAFE.issuperset(one.methods) and one.is_one_url for one in granted.http)
    asks = "http: asks for fixed paths alone" if granted.http else "no grant http:"
    if writes or fixed:
        known["writes_persistent_state"] = (bool(writes), _ground(writes, f"no store:, and {asks}"))
    if fixed:
        ground = f"a guest ends with its call, and {asks}"
        known["creates_autonomous_actions"] = (False, ground)
    return known


def _ground(grants: Sequence[str], without: str) -> str:
    more = f" and {len(grants) - 2} more" if len(grants) > 2 else ""
    return ", ".join(grants[:2]) + more if grants else without


def _lower(value: bool | None) -> str:
    return str(value).lower()
