"""The source ``codex``: the MCP servers of its `config.toml`, its skills, and what is built in."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hookgate.builtin_plugins.inventory.record import CapabilityRecord, Status
from hookgate.builtin_plugins.inventory.sources import (
    CapabilityChange,
    CapabilityInstall,
    RuntimeDisconnectedError,
    UnknownCapabilityError,
    UnsupportedCapabilityWriteError,
    built_ins,
    connector,
    skill_record,
)
from hookgate.builtin_plugins.inventory.sources.files import Home, SkillFile, Skills, projects_of
from hookgate.kit.modules import on_demand
from hookgate.settings import locate

if TYPE_CHECKING:
    from hookgate.builtin_plugins.inventory import writing
    from hookgate.builtin_plugins.inventory.writing import Edit, toml_text, transcoder
else:
    # Few gateways change what Codex has.
    _WRITING = "hookgate.builtin_plugins.inventory.writing"
    writing, toml_text, transcoder = (
        on_demand(f"{_WRITING}{name}") for name in ("", ".toml_text", ".transcoder")
    )

CONFIG = "config.toml"
LOCAL = ".codex/config.toml"
"""The settings of a project, in the project."""

LOGIN = "auth.json"
SERVERS = "mcp_servers"

NOTE = "switched off by hookgate"
"""The comment of a line that was put in: enabling takes that line out again."""

SHARED = ".agents/skills"
"""Where skills lie that several runtimes share: beside Codex's home, and in projects."""

_TOOLS = ("shell", "apply_patch", "update_plan", "view_image", "web_search")


class CodexSource:
    """Reads the home of Codex and its projects. The MCP servers of the home can be switched."""

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
        known = home.table(config, "projects", CONFIG)
        projects = projects_of(home, known, own=".codex")
        shared = Home(home.root.parent)
        found = self._skills.read(
            {
                "": (home, "skills"),
                ".system/": (home, "skills/.system"),
                ".agents/": (shared, SHARED),
            }
            | {f"{path}:": (project, SHARED) for path, project in projects.items()}
        )
        records = [
            record for prefix, skills in found.items() for record in _skills(skills, config, prefix)
        ]
        records += _connectors(home, config)
        for path, project in projects.items():
            said = known.get(path)
            trusted = isinstance(said, dict) and said.get("trust_level") == "trusted"
            records += _of_project(path, project, trusted=trusted)
        for other in (shared, *projects.values()):
            for problem in other.problems:
                home.tell(problem)
        if hint := _login_hint(home, config):
            home.tell(hint)
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
        transcoder.transcode(record, change.action, root, CONFIG, lambda text: edit(text, path))
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
        record = _connector(home, install.key, server, pending="")
        path = (SERVERS, install.key)

        def decide(text: str) -> Edit:
            there = toml_text.read(text).get(SERVERS)
            if isinstance(there, dict) and install.key in there:
                raise UnsupportedCapabilityWriteError(
                    f"Codex has an MCP server called {install.key!r} already",
                    action="give it another name, or take that one out by `codex mcp remove`",
                )
            return writing.Edit(path, server)

        transcoder.transcode(record, "enable", home.root, CONFIG, decide)
        return self._find(record.id)


def _switched_off(text: str, path: tuple[str, ...]) -> Edit | None:
    return writing.Edit(path, value=False, note=NOTE)


def _switched_on(text: str, path: tuple[str, ...]) -> Edit | None:
    """Return what makes a file again what it was before a server was switched off in it."""
    if toml_text.noted(text, path, NOTE):
        return writing.Edit(path, gone=True)
    return writing.Edit(path, value=True) if path in locate(text) else None


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
    if isinstance(server, dict) and server.get("enabled") is False:
        status = "disabled"
    elif pending:
        status = "manageable-but-pending-auth"
    return connector(
        "codex",
        name,
        server,
        manageability="external-write",
        provenance=str(home.root / CONFIG),
        status=status,
        hint=pending,
    )


def _of_project(path: str, project: Home, *, trusted: bool) -> Iterator[CapabilityRecord]:
    """Yield the MCP servers of a project's own settings, which are never written from here."""
    for name, server in project.table(project.toml(LOCAL), SERVERS, LOCAL).items():
        off = not trusted or (isinstance(server, dict) and server.get("enabled") is False)
        yield connector(
            "codex",
            f"{path}/{LOCAL}:{name}",
            server,
            manageability="observe-only",
            provenance=str(project.root / LOCAL),
            name=name,
            status="disabled" if off else "ready",
            diagnostics=() if trusted else ("nobody has told Codex to trust the project",),
        )


def _login_hint(home: Home, config: Mapping[str, Any]) -> str:
    """Return what a person has to do first; "" once Codex is logged in, as far as can be seen.

    A login in the system's keyring cannot be seen, and a model that is not OpenAI's needs none.
    """
    login = home.json(LOGIN)
    if login.get("OPENAI_API_KEY") or login.get("tokens"):
        return ""
    if config.get("cli_auth_credentials_store", "file") != "file":
        return ""
    if config.get("model_provider", "openai") != "openai":
        return ""
    return "pending auth: run `codex login`"
