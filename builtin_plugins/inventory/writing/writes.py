"""Changes: who may make which, what an install has to pass, and what the audit hears of it."""

from __future__ import annotations

import hashlib
import re
import tomllib
import unicodedata
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from hookgate import (
    Card,
    Event,
    Finding,
    Host,
    NotAllowedError,
    Principal,
    Rejected,
    TurnError,
    WireError,
)
from hookgate.builtin_plugins.inventory.multiplexer import Multiplexer
from hookgate.builtin_plugins.inventory.record import REFUSED, CapabilityRecord, parse_id, refusal
from hookgate.builtin_plugins.inventory.sources import (
    Action,
    CapabilityChange,
    CapabilityInstall,
    RuntimeDisconnectedError,
    UnknownCapabilityError,
    UnsupportedCapabilityWriteError,
)
from hookgate.builtin_plugins.inventory.switches import NATIVE
from hookgate.tasks import finish
from hookgate.wire import canonical

if TYPE_CHECKING:
    from hookgate.builtin_plugins.inventory.service import Inventory

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


# -- writes ----------------------------------------------------------------------

# Changes: who may make which, what an install has to pass, and what the audit hears of it.

KIND = "inventory_write"
"""What the audit calls the rows of changes."""


class InstallRefusedError(WireError):
    """What was to be installed has not passed the scan: 422. Nothing was changed."""

    def __init__(self, findings: Sequence[Finding]) -> None:
        notes = [one.note or one.rule for one in findings]
        super().__init__(
            -32000,
            f"it is not installed: {'; '.join(notes)}",
            data={
                "code": REFUSED,
                "action": "look at what was found; install what has none of it",
                "findings": [{"rule": one.rule, "note": one.note} for one in findings],
            },
        )


@dataclass(frozen=True, slots=True)
class _Asked:
    """A change that has passed its gate, and what the audit is told of it."""

    source: str
    change: CapabilityChange
    told: Mapping[str, Any]


class Writes:
    """Hands changes to the sources that own what is changed."""

    def __init__(
        self,
        host: Host,
        inventory: Inventory,
        multiplexer: Multiplexer,
        announce: Callable[[], Awaitable[None]],
    ) -> None:
        """Write by `multiplexer`; `announce` tells other gateways of what was changed here."""
        self._host = host
        self._announce = announce
        self._inventory = inventory
        self._multiplexer = multiplexer

    async def change(
        self, action: Action, record_id: str, by: Principal, *, agent: str = "", digest: str = ""
    ) -> CapabilityRecord:
        """Enable, disable or approve what an id names; return it as it is then.

        Args:
            action: ``enable``, ``disable`` or ``approve``.
            record_id: The id of the record. Its first part says whose it is.
            by: Who asks.
            agent: An agent of the gateway for which something of everybody's is switched; "" for
                all.
            digest: The digest that is approved.

        Raises:
            TurnError: The id is none (400), or the store cannot be written (503).
            UnknownCapabilityError: Nothing has this id, or no runtime has this agent (404).
            UnsupportedCapabilityWriteError: It cannot be changed (422).
            RuntimeDisconnectedError: Its runtime cannot be reached (503).
        """
        try:
            source = parse_id(record_id).source
        except ValueError as error:
            raise _invalid(str(error)) from None
        self._known(source)
        # Once it is under way it comes to its end, whoever goes away meanwhile: the steps have
        # limits of their own.
        return await finish(self._changed(source, action, record_id, by, agent, digest))

    async def _changed(
        self, source: str, action: Action, record_id: str, by: Principal, agent: str, digest: str
    ) -> CapabilityRecord:
        async with self._multiplexer.writing(source):
            await self._look(source)
            record = self._inventory.find(record_id)
            _may(by, record.agent_id)
            if agent:
                self._for_agent(agent, record, by)
            if action == "approve" and not digest:
                raise _invalid("found no digest: say which one you have looked at")
            # What waits for approval is not available, and has no other button.
            approvable = action == "approve" and record.manageability != "observe-only"
            if not approvable and (why := refusal(record, action)):
                # What its runtime alone switches has a hint while that cannot be reached.
                if record.manageability == "runtime-of-record" and record.hint:
                    raise RuntimeDisconnectedError(why, action="")
                raise UnsupportedCapabilityWriteError(why)
            change = CapabilityChange(
                action=action, by=by, record=record, agent_id=agent or None, digest=digest
            )
            told = {"id": record.id, "runtime": record.runtime, "agent": agent or record.agent_id}
            return await self._dispatch(_Asked(source, change, told))

    def _for_agent(self, agent: str, record: CapabilityRecord, by: Principal) -> None:
        _may(by, agent)
        if self._runtime_of(agent) != NATIVE or record.runtime != NATIVE:
            raise UnsupportedCapabilityWriteError(
                f"{record.id} cannot be switched for the agent {agent!r} alone: the gateway does "
                "that for its own tools and its own agents"
            )

    async def install(
        self, install: CapabilityInstall, by: Principal, *, via: str = NATIVE
    ) -> CapabilityRecord:
        """Install something by the source called `via`; return its record.

        Args:
            install: What is to be installed. Its runtime is found out, whatever it says.
            by: Who asks.
            via: The id of the source that installs it.

        Raises:
            InstallRefusedError: It has not passed the scan (422).
            UnknownCapabilityError: There is no such source or agent (404).
            UnsupportedCapabilityWriteError: That source does not install this (422).
            RuntimeDisconnectedError: Its runtime cannot be reached (503).
        """
        self._known(via)
        return await finish(self._installed(install, by, via))

    async def _installed(
        self, install: CapabilityInstall, by: Principal, via: str
    ) -> CapabilityRecord:
        _may(by, install.agent_id)
        await self._inventory.read()
        runtime = NATIVE if via == NATIVE else via
        if install.agent_id is not None:
            runtime = self._runtime_of(install.agent_id)
        asked = {item: value for item, value in asdict(install).items() if item != "runtime"}
        install = CapabilityInstall(**{**asked, "runtime": runtime})
        told = {
            "key": install.key,
            "kind": install.kind,
            "runtime": runtime,
            "agent": install.agent_id,
            # Values of the environment are secrets more often than not.
            "digest": hashlib.sha256(canonical(asked)).hexdigest(),
        }
        change = CapabilityChange(action="install", by=by, install=install)
        findings = (*await self._judged(install), *scan(install))
        if findings:
            rules = sorted({one.rule for one in findings})
            await self._audit(_Asked(via, change, told), "blocked", findings=rules)
            raise InstallRefusedError(findings)
        async with self._multiplexer.writing(via):
            await self._look(via)
            return await self._dispatch(_Asked(via, change, told))

    async def _judged(self, install: CapabilityInstall) -> tuple[Finding, ...]:
        """Return what the sanitizers say of all the texts of an install."""
        texts = (install.key, install.description, install.content, install.command, install.url)
        text = "\n".join((*texts, *install.args, *install.env, *install.env.values()))
        card = Card(
            id=f"install:{install.key}",
            text=text,
            origin="user",
            max_chars=len(text),
            token_budget=len(text),
        )
        judged = await self._host.sanitize(card)
        if not isinstance(judged, Rejected):
            return ()
        return judged.findings or (Finding(rule="sanitizer", severity="high", note=judged.reason),)

    # -- within ------------------------------------------------------------

    def _known(self, source: str) -> None:
        sources = self._multiplexer.sources
        if source not in sources:
            raise UnknownCapabilityError(
                f"found the source {source!r}, expected one of {', '.join(sorted(sources))}",
                action="list the inventory, and take an id from there",
            )

    async def _look(self, source: str) -> None:
        """Read a source now: what is changed is what is there, not what was shown."""
        status = await self._inventory.read_source(source)
        if not status.ok:
            raise RuntimeDisconnectedError(f"{source} cannot be read: {status.why}")

    def _runtime_of(self, agent: str) -> str:
        try:
            return self._inventory.runtime_of(agent)
        except ValueError as error:
            raise _invalid(str(error)) from None

    async def _dispatch(self, asked: _Asked) -> CapabilityRecord:
        """Let the source make the change, between two rows of the audit.

        What cannot be recorded is not done. What was done and cannot be recorded is told as a
        failure of the store, with the row before it.
        """
        await self._audit(asked, "allowed")
        try:
            record = await self._multiplexer.write(asked.source, asked.change)
        except Exception as error:
            await self._audit(asked, "failed", error=type(error).__name__)
            raise
        finally:
            await self._inventory.read_source(asked.source)
        if asked.source == NATIVE:
            await self._announce()
        await self._audit(asked, "done", status=record.status)
        data = {"id": record.id, "action": asked.change.action, "status": record.status}
        self._host.events.publish(Event("inventory_changed", data, scope="read"))
        return self._inventory.merged.whole(record)

    async def _audit(self, asked: _Asked, outcome: str, **more: Any) -> None:
        change = asked.change
        data = {
            "action": change.action,
            "source": asked.source,
            "by": change.by.id,
            "outcome": outcome,
            **asked.told,
            **more,
        }
        await self._host.record(KIND, **data)
        self._host.log.info("inventory", **data)


def _may(by: Principal, agent: str | None) -> None:
    if agent is not None and not by.may_use_agent(agent):
        raise NotAllowedError(
            f"{by.id} may not speak to the agent {agent!r}, and not change what it has"
        )


def _invalid(message: str) -> TurnError:
    return TurnError.invalid(message, "look at the parameters")
