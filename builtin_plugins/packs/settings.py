"""The settings of packs: ``[plugin.packs]``."""

from __future__ import annotations

from typing import Literal, TypeAlias, get_args

from pydantic import Field, field_validator

from hookgate import Section

PackName: TypeAlias = Literal["claude-code", "codex", "gemini", "opencode"]
PACKS: tuple[PackName, ...] = get_args(PackName)
"""The names of the packs that come with hookgate, each of a file in `data`."""


class ToolSettings(Section):
    """``[plugin.packs.tools."NAME"]``: what the operator says of a client's tool."""

    reads_external_data: bool | None = None
    """Whether it returns text that somebody else wrote."""
    writes_persistent_state: bool | None = None
    """Whether it changes something that outlives the turn."""
    sends_externally: bool | None = None
    """Whether it can carry data out."""
    executes_privileged: bool | None = None
    """Whether it runs commands or acts with raised rights."""
    creates_autonomous_actions: bool | None = None
    """Whether it makes something that acts later by itself."""
    confined: bool = False
    """Whether all that it writes stays in the client's workspace."""
    schema_digest: str = ""
    """The digest of its schema, as `hookgate compat tools` shows it: a tool of this name with
    another schema is not meant. Left out, any is."""


class PacksSettings(Section):
    """``[plugin.packs]``: what is known of the tools that clients run."""

    enabled: tuple[PackName, ...] = ()
    """The packs whose clients may be taken at the names of their tools."""
    by_key: bool = True
    """Whether a key that was made for a client, by `hookgate keys new --for NAME`, enables the pack
    of that client for whoever comes with it."""
    workspaces: tuple[str, ...] = ()
    """Folders that clients work in, below which a folder that a client names is taken for its
    workspace; with one of them, where a client names none. Left out, what the client names."""
    workspace_code: Literal["allow", "ask"] = "allow"
    """Whether building and testing, which run the workspace's own code, is done without a
    question."""
    hosts: tuple[str, ...] = ()
    """Hosts that may be read from without a question, beside the reference works of the packs."""
    tools: dict[str, ToolSettings] = Field(default_factory=dict)
    """What the operator says of other tools, by globs of their names, such as `mcp__tickets__*`."""

    @field_validator("workspaces")
    @classmethod
    def _are_folders(cls, folders: tuple[str, ...]) -> tuple[str, ...]:
        for folder in folders:
            if not folder.startswith("/") or folder.rstrip("/").count("/") < 2:
                raise ValueError(f"found {folder!r}, expected a folder such as /home/ada/src")
        return tuple(folder.rstrip("/") for folder in folders)
