"""What must not be installed: commands, arguments, environments and addresses that betray harm."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from hookgate.core.domain.descriptors import Finding

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hookgate.builtin_plugins.inventory.sources.source import CapabilityInstall

__all__ = ["scan"]

_SHELL = re.compile(r"[;&|`<>\n\r\0]|\$\(|\$\{")
_INTERPRETER = re.compile(r"(?:^|/)(?:ba|da|z|k|fi)?sh$|(?:^|/)(?:cmd|powershell|pwsh)(?:\.exe)?$")
_LOADER = re.compile(
    r"(?:LD|DYLD)_[A-Z_]+|NODE_OPTIONS|PYTHON(?:STARTUP|PATH|HOME)|PERL5OPT|RUBYOPT|BASH_ENV|ENV|"
    r"GIT_SSH(?:_COMMAND)?|PATH|IFS"
)
_SCHEMES = {"https", "wss"}
_LOCAL = {"localhost", "127.0.0.1", "::1"}


def scan(install: CapabilityInstall) -> tuple[Finding, ...]:
    """Return what speaks against an install: key, command, args, env, url. Any finding refuses it.

    What its texts say to a model is judged by the sanitizers, not here.
    """
    return (*_command(install), *_environment(install), *_address(install))


def _command(install: CapabilityInstall) -> Iterator[Finding]:
    for place, text in (("key", install.key), ("command", install.command)):
        if _SHELL.search(text):
            yield _found("shell-syntax", f"{place}: text that a shell would run")
    if _INTERPRETER.search(install.command):
        yield _found("shell", "command: a shell, which runs whatever its arguments say")
    for number, text in enumerate(install.args):
        if _SHELL.search(text):
            yield _found("shell-syntax", f"args[{number}]: text that a shell would run")


def _environment(install: CapabilityInstall) -> Iterator[Finding]:
    for name, value in install.env.items():
        if _LOADER.fullmatch(name):
            yield _found("loader", f"env {name}: it makes other programs load code")
        if "\0" in value or "$(" in value or "`" in value:
            yield _found("shell-syntax", f"env {name}: text that a shell would run")


def _address(install: CapabilityInstall) -> Iterator[Finding]:
    if not install.url:
        return
    try:
        url = urlsplit(install.url)
        host = url.hostname or ""
    except ValueError:
        yield _found("address", "url: it cannot be read")
        return
    if url.scheme not in _SCHEMES and not (url.scheme == "http" and host in _LOCAL):
        yield _found("address", f"url: found {url.scheme or 'no scheme'}, expected https")
    if not host or url.username is not None or url.password is not None:
        yield _found("address", "url: expected a host, and no name or password before it")


def _found(rule: str, note: str) -> Finding:
    return Finding(rule=rule, severity="high", note=note)
