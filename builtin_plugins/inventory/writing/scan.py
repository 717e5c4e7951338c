"""What must not be installed: commands, arguments, environments, addresses and texts of harm.

What is looked for stands in `scan_rules.toml`; addresses are looked at here.
"""

from __future__ import annotations

import re
import tomllib
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from hookgate import Finding

if TYPE_CHECKING:
    from hookgate.builtin_plugins.inventory.sources.source import CapabilityInstall

RULES = Path(__file__).with_name("scan_rules.toml")

_SCHEMES = {"https", "wss"}
_LOCAL = {"localhost", "127.0.0.1", "::1"}
_ADDRESS = re.compile(r"(?:[a-z-]{1,20}=)?((?:https?|wss?|ftp)://.*)", re.IGNORECASE | re.DOTALL)
_ODD_HOST = re.compile(r"0x[0-9a-f]+|[0-9.]+|(?:0x[0-9a-f]+|[0-9]+)(?:\.(?:0x[0-9a-f]+|[0-9]+))*")
_HIDDEN = {"Cc", "Cf", "Co", "Cs"}


@dataclass(frozen=True, slots=True)
class _Rule:
    name: str
    where: frozenset[str]
    pattern: re.Pattern[str]
    note: str


@dataclass(frozen=True, slots=True)
class _Part:
    """One text of an install: what rules call it, what people call it, and what it says."""

    kind: str
    place: str
    text: str


def scan(install: CapabilityInstall) -> tuple[Finding, ...]:
    """Return what speaks against an install: any finding refuses it.

    Key, command, arguments, environment, address and texts are looked at. What the texts say to a
    model is judged by the sanitizers as well, before this. A finding repeats nothing of what it
    was found in: that may be a secret.
    """
    findings: dict[tuple[str, str], Finding] = {}
    for part in _parts(install):
        for finding in (*_ruled(part), *_hidden(part)):
            findings.setdefault((finding.rule, finding.note), finding)
    if install.url:
        for finding in _address("url", install.url):
            findings.setdefault((finding.rule, finding.note), finding)
    for number, text in enumerate(install.args):
        if match := _ADDRESS.match(text.strip()):
            for finding in _address(f"args[{number}]", match.group(1)):
                findings.setdefault((finding.rule, finding.note), finding)
    return tuple(findings.values())


@cache
def _rules() -> tuple[_Rule, ...]:
    rows = tomllib.loads(RULES.read_text(encoding="utf-8"))["rule"]
    return tuple(
        _Rule(row["name"], frozenset(row["where"]), re.compile(row["pattern"]), row["note"])
        for row in rows
    )


def _parts(install: CapabilityInstall) -> Iterator[_Part]:
    program = re.split(r"[/\\]", install.command.strip())[-1].lower().removesuffix(".exe")
    yield _Part("key", "key", install.key)
    yield _Part("command", "command", install.command)
    yield _Part("program", "command", program)
    line = " ".join((program, *(text.strip() for text in install.args)))
    yield _Part("line", "command and args", line)
    for number, text in enumerate(install.args):
        yield _Part("args", f"args[{number}]", text)
    for name, value in install.env.items():
        yield _Part("env_name", f"env {name}", name)
        yield _Part("env", f"env {name}", value)
    yield _Part("url", "url", install.url)
    yield _Part("text", "description", install.description)
    yield _Part("text", "content", install.content)


def _ruled(part: _Part) -> Iterator[Finding]:
    text = unicodedata.normalize("NFKC", part.text)
    # Letters between the others that nobody sees would hide a word; a line that goes on is one.
    seen = "".join(char for char in text if unicodedata.category(char) != "Cf").lower()
    if part.kind == "text":
        seen = re.sub(r"\\\r?\n[ \t]{0,40}", " ", seen)
    for rule in _rules():
        if part.kind in rule.where and rule.pattern.search(seen):
            yield _found(rule.name, f"{part.place}: {rule.note}")


def _hidden(part: _Part) -> Iterator[Finding]:
    if part.kind in {"key", "command", "args", "env_name", "url"} and any(
        unicodedata.category(char) in _HIDDEN for char in part.text
    ):
        yield _found("hidden-characters", f"{part.place}: characters that nobody sees")


def _address(place: str, text: str) -> Iterator[Finding]:
    try:
        url = urlsplit(text)
        host = (url.hostname or "").rstrip(".")
        url.port  # noqa: B018  # it is read here to learn whether it is one
    except ValueError:
        yield _found("address", f"{place}: it cannot be read")
        return
    if re.search(r"[\s\\]", text):
        yield _found("address", f"{place}: a blank or a backslash, which readers take differently")
    if url.scheme not in _SCHEMES and not (url.scheme in {"http", "ws"} and host in _LOCAL):
        yield _found("address", f"{place}: found {url.scheme or 'no scheme'}, expected https")
    if not host or url.username is not None or url.password is not None:
        yield _found("address", f"{place}: expected a host, and no name or password before it")
    elif why := _within(host):
        yield _found("address", f"{place}: {why}")


def _within(host: str) -> str:
    """Return why a host is none of the internet's; "" for one that is, and for this machine."""
    if host in _LOCAL:
        return ""
    try:
        address = ip_address(host.partition("%")[0])
    except ValueError:
        odd = _ODD_HOST.fullmatch(host)
        return "an address that is written so that it does not look like one" if odd else ""
    mapped = getattr(address, "ipv4_mapped", None) or address
    return "" if mapped.is_global else "an address within somebody's network"


def _found(rule: str, note: str) -> Finding:
    return Finding(rule=rule, severity="high", note=note)
