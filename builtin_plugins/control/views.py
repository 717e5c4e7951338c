"""What commands show of the results of these operations."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any

import typer
from rich.text import Text

from hookgate.kit.commands import View
from hookgate.kit.rendering import fields, listing, message, one_line, table

# (standing, value) -> how it is shown. What is unknown counts as yes for policy.
_MARKS = {
    ("proven", False): ("no, proven", "bold green"),
    ("proven", True): ("yes, proven", "bold red"),
    ("declared", False): ("no", "green"),
    ("declared", True): ("yes", "red"),
    ("unknown", None): ("unknown", "yellow"),
}
_HEADS = {
    "reads_external_data": "reads",
    "writes_persistent_state": "writes",
    "sends_externally": "sends",
    "executes_privileged": "privileged",
    "creates_autonomous_actions": "autonomous",
}

Capabilities = Annotated[
    bool, typer.Option("--capabilities", help="Show the five flags of each, and their standing.")
]


def tools(found: Mapping[str, Any], *, capabilities: Capabilities = False) -> Iterator[Any]:
    """Show tools, or what each does to the world."""
    rows = found["tools"]
    if not rows:
        yield Text("no tool is called so", style="dim")
        return
    yield table([_flags(row) if capabilities else _plain(row) for row in rows])
    if capabilities:
        yield from _grounds(rows)
    for row in rows:
        if why := row["quarantine"]:
            yield Text(f"{row['name']} is in quarantine: {one_line(why)}", style="bold red")
    if any(row["quarantine"] for row in rows):
        yield "`hookgate tools changes` shows more, `hookgate accept give tool NAME` accepts one."
    for row in rows:
        if whose := row["off"]:
            yield Text(f"{row['name']} is switched off for {whose}", style="yellow")
    if off := next((row["name"] for row in rows if row["off"]), ""):
        yield f"`hookgate inventory enable native/{off}` switches it on."


def _plain(row: Mapping[str, Any]) -> Mapping[str, Any]:
    return {
        "tool": Text(row["name"], style="bold"),
        "source": _source(row),
        "category": row["category"],
        "description": " ".join(row["description"].split()),
    }


def _flags(row: Mapping[str, Any]) -> Mapping[str, Any]:
    return {
        "tool": Text(row["name"], style="bold"),
        "source": _source(row),
        **{_HEADS[name]: _mark(flag) for name, flag in row["flags"].items()},
        "state": _state(row),
    }


def _state(row: Mapping[str, Any]) -> Text:
    if row["quarantine"]:
        return Text("quarantine", style="bold red")
    return Text("off", style="yellow") if row["off"] else Text("ready", style="green")


def _grounds(rows: Sequence[Mapping[str, Any]]) -> Iterator[Text]:
    """Say what flags rest on in particular, such as a grant, where their plugin says so."""
    for row in rows:
        told = [(name, flag) for name, flag in row["flags"].items() if flag.get("ground")]
        if told:
            yield Text.assemble("\n", (row["name"], "bold"), ":")
        for name, flag in told:
            ground = f": {one_line(flag['ground'])}"
            yield Text.assemble(f"  {_HEADS[name]}: ", _mark(flag), ground)


def _source(row: Mapping[str, Any]) -> str:
    """Return who brings a tool, and where it runs if that is not in the gateway's process."""
    plugin, sandbox = row["plugin"], row["sandbox"]
    return str(plugin) if sandbox == "python" else f"{plugin} ({sandbox})"


def _mark(flag: Mapping[str, Any]) -> Text:
    words, style = _MARKS[flag["standing"], flag["value"]]
    return Text(words, style=style)


def sessions(found: Mapping[str, Any]) -> Any:
    """Show sessions."""
    return table(found["sessions"]) if found["sessions"] else Text("no session is stored", "dim")


def deleted(found: Mapping[str, Any]) -> str:
    """Say what is gone."""
    return f"deleted {found['messages']:,} messages of {found['session']}"


def history(found: Mapping[str, Any]) -> Iterator[Any]:
    """Show the messages of a session."""
    yield Text(found["session"], style="bold")
    for one in found["messages"]:
        yield from message(one)


def reloaded(found: Mapping[str, Any]) -> Iterator[Any]:
    """Say what was read again, and what waits for a restart."""
    yield Text("reloaded", style="green")
    yield fields(found["changed"])
    if found["restart"]:
        yield Text(f"a restart is needed for: {', '.join(found['restart'])}", style="yellow")


VIEWS = {
    "accept.list": listing(
        "things",
        "nothing was accepted, and nothing waits: tools, cards and guests of others come here",
        *("kind", "name", "waits", "why", "by", "at"),
    ),
    "reload": View(shown=reloaded, running=True),
    "sessions.delete": deleted,
    "sessions.export": View(export="messages"),
    "sessions.list": sessions,
    "sessions.show": history,
    "token.list": listing(
        "tokens",
        "no token: this gateway serves its own user on this machine; `hookgate token new NAME` "
        "makes one for others",
        *("name", "scopes", "revoked", "expires"),
    ),
    "tools.list": tools,
}
