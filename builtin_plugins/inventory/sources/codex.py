"""The source ``codex``: the MCP servers of its `config.toml`, its skills, and what is built in."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hookgate.builtin_plugins.inventory.sources.files import Home, SkillFile, Skills
from hookgate.builtin_plugins.inventory.sources.source import (
    CapabilityChange,
    CapabilityInstall,
    RuntimeDisconnectedError,
    UnknownCapabilityError,
    UnsupportedCapabilityWriteError,
    built_ins,
    connector,
    skill_record,
)
from hookgate.builtin_plugins.inventory.writing.formats import toml_text
from hookgate.builtin_plugins.inventory.writing.formats.edits import Edit
from hookgate.builtin_plugins.inventory.writing.transcoder import transcode
from hookgate.settings import locate

if TYPE_CHECKING:
    from hookgate.builtin_plugins.inventory.record import CapabilityRecord, Status

CONFIG = "config.toml"
LOGIN = "auth.json"
SERVERS = "mcp_servers"

NOTE = "switched off by hookgate"
"""The comment of a line that was put in: enabling takes that line out again."""

_TOOLS = ("shell", "apply_patch", "update_plan", "view_image", "web_search")


class CodexSource:
    """Reads the home of Codex. Its MCP servers can be switched once it is logged in."""

    id = "codex"

    def __init__(self, home: Path) -> None:
        """Read `home`: `~/.codex`, or where `CODEX_HOME` points to."""
        self._home = home
        self._skills = Skills()

    def read(self) -> Sequence[CapabilityRecord]:
        """Return what Codex has; nothing where it is not installed."""
        home = Home(self._home)
        if not home.exists():
            return ()
        config = home.toml(CONFIG)
        found = self._skills.read({"": (home, "skills"), "system": (home, "skills/.system")})
        records = [
            *_skills(found[""], config, ""),
            *_skills(found["system"], config, ".system/"),
            *_connectors(home, config),
        ]
        return (*records, built_ins(self.id, "Codex", _TOOLS, home))

    async def write(self, change: CapabilityChange) -> CapabilityRecord:
        """Switch an MCP server in `config.toml`, or put one in."""
        return await asyncio.to_thread(self._write, change)

    def _write(self, change: CapabilityChange) -> CapabilityRecord:
        if change.install is not None:
            return self._install(change.install)
        assert change.record is not None, "every change but an install has a record"
        record = self._find(change.record.id)
        if change.action not in {"enable", "disable"}:
            raise UnsupportedCapabilityWriteError(f"{change.action} is nothing that Codex takes")
        path = (SERVERS, record.source_key, "enabled")
        edit = _switched_on if change.action == "enable" else _switched_off
        root = Home(self._home).root
        transcode(record, change.action, root, CONFIG, lambda text: edit(text, path))
        return self._find(record.id)

    def _find(self, record_id: str) -> CapabilityRecord:
        for record in self.read():
            if record.id == record_id:
                return record
        raise UnknownCapabilityError(
            f"found the id {record_id!r}, which Codex does not have",
            action="list the inventory, and take an id from there",
        )

    def _install(self, install: CapabilityInstall) -> CapabilityRecord:
        server = _server(install)
        home = Home(self._home)
        if not home.exists():
            raise RuntimeDisconnectedError(f"Codex is not installed: {home.root} is not there")
        pending = _login_hint(home, home.toml(CONFIG))
        record = _connector(home, install.key, server, pending)
        path = (SERVERS, install.key)

        def decide(text: str) -> Edit:
            there = toml_text.read(text).get(SERVERS)
            if isinstance(there, dict) and install.key in there:
                raise UnsupportedCapabilityWriteError(
                    f"Codex has an MCP server called {install.key!r} already",
                    action="give it another name, or take that one out by `codex mcp remove`",
                )
            return Edit(path, server)

        transcode(record, "enable", home.root, CONFIG, decide)
        return self._find(record.id)


def _switched_off(text: str, path: tuple[str, ...]) -> Edit | None:
    return Edit(path, value=False, note=NOTE)


def _switched_on(text: str, path: tuple[str, ...]) -> Edit | None:
    """Return what makes a file again what it was before a server was switched off in it."""
    if toml_text.noted(text, path, NOTE):
        return Edit(path, gone=True)
    return Edit(path, value=True) if path in locate(text) else None


def _server(install: CapabilityInstall) -> dict[str, Any]:
    """Return what Codex's settings say of a server that is to be installed."""
    if install.kind != "connector" or bool(install.command) == bool(install.url):
        raise UnsupportedCapabilityWriteError(
            f"found a {install.kind}, and Codex takes connectors with a command or a url",
            action="say `kind = connector`, and one of `command` and `url`",
        )
    if install.agent_id is not None:
        raise UnsupportedCapabilityWriteError(
            f"found the agent {install.agent_id!r}: what Codex has is for everybody"
        )
    if install.url:
        return {"url": install.url}
    server: dict[str, Any] = {"command": install.command}
    if install.args:
        server["args"] = list(install.args)
    if install.env:
        server["env"] = dict(install.env)
    return server


def _skills(
    skills: Sequence[SkillFile], config: Mapping[str, Any], folder: str
) -> Iterator[CapabilityRecord]:
    switches = config.get("skills")
    rows = switches.get("config") if isinstance(switches, dict) else None
    off = {
        Path(path).expanduser()
        for row in (rows if isinstance(rows, list) else ())
        if isinstance(row, dict) and row.get("enabled") is False
        if isinstance(path := row.get("path"), str)
    }
    for skill in skills:
        status: Status = "disabled" if {skill.path, skill.path.parent} & off else "ready"
        yield skill_record("codex", skill, key=f"{folder}{skill.key}", status=status)


def _connectors(home: Home, config: Mapping[str, Any]) -> Iterator[CapabilityRecord]:
    pending = _login_hint(home, config)
    for name, server in home.table(config, SERVERS, CONFIG).items():
        yield _connector(home, name, server, pending)


def _connector(home: Home, name: str, server: Any, pending: str) -> CapabilityRecord:
    status: Status = "ready"
    if pending:
        status = "manageable-but-pending-auth"
    elif isinstance(server, dict) and server.get("enabled") is False:
        status = "disabled"
    return connector(
        "codex",
        name,
        server,
        manageability="external-write",
        provenance=str(home.root / CONFIG),
        status=status,
        hint=pending,
    )


def _login_hint(home: Home, config: Mapping[str, Any]) -> str:
    """Return what a person has to do first; "" once Codex is logged in."""
    login = home.json(LOGIN)
    if login.get("OPENAI_API_KEY") or login.get("tokens"):
        return ""
    if config.get("cli_auth_credentials_store", "file") != "file":
        return (
            "pending auth: Codex keeps its login outside of its home, where it is not looked for; "
            'say `cli_auth_credentials_store = "file"`, and run `codex login`'
        )
    return "pending auth: run `codex login`"
