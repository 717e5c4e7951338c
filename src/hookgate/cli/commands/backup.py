"""``hookgate backup`` and ``hookgate restore``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hookgate.cli.state import JsonOption, State, state_of

if TYPE_CHECKING:
    from hookgate.builtin_plugins.storage.backup import Kept


CHECK = "check"
"""Stands in the place of a target, before a copy that is to be looked at."""

FILES = ("audit.key", "audit.head", "revoked-tokens.json", "config.toml")
"""What a copy may hold beside the store, by its names in it."""


def backup(
    ctx: typer.Context,
    target: Annotated[
        Path,
        typer.Argument(
            help="A folder, in which the copy is named by the time; or a file, such as x.tar. "
            "Or `check`, and the copy behind it."
        ),
    ],
    copy: Annotated[
        Path | None, typer.Argument(help="Behind `check`: what `hookgate backup` wrote.")
    ] = None,
    with_keys: Annotated[
        bool, typer.Option("--with-keys", help="Copy the key files of providers as well.")
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace a file that is there.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Copy the store, the keys and head of the audit, and the settings, into one file.

    The gateway may run meanwhile. The file holds all that was said, and the key of the audit:
    it is readable by its owner alone, and belongs where nobody else reads.

    With `check` a copy is put back into a folder of its own and a gateway is started there, which
    verifies the record and brings the tables up to date. Exit code 1 if it cannot be used; nothing
    of yours is touched.

    Examples:
        hookgate backup ~/backups --with-keys
        hookgate backup check ~/backups/hookgate-20260102T030405Z.tar
    """
    from datetime import UTC, datetime

    from rich.text import Text

    from hookgate.builtin_plugins.storage.backup import back_up

    state = state_of(ctx)
    if str(target) == CHECK and copy is not None:
        _check(state, copy.expanduser())
        return
    if copy is not None:
        raise typer.BadParameter(
            f"found {str(target)!r} before it, expected `{CHECK}`", param_hint="COPY"
        )
    kept = _kept(state, keys=with_keys)
    place, names = back_up(kept, target.expanduser(), now=datetime.now(UTC), force=force)
    data = {"file": str(place), "holds": names}

    said: list[Any] = [f"wrote {place}: {', '.join(names)}"]
    if not with_keys:
        said.append(Text("key files of providers are not in it (`--with-keys`)", style="dim"))
    beside = "nor are files that the settings name, such as rules: keep a copy of them as well"
    said.append(Text(beside, style="dim"))
    state.show(data, said)


def restore(
    ctx: typer.Context,
    source: Annotated[Path, typer.Argument(help="What `hookgate backup` wrote.")],
    force: Annotated[
        bool,
        typer.Option("--force", help="Replace what is there; it stays, as NAME.replaced."),
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Put a copy back into `home`. No gateway may hold it.

    Example:
        hookgate restore ~/backups/hookgate-20260102T030405Z.tar
    """
    from rich.text import Text

    from hookgate.builtin_plugins.storage.backup import put_back

    state = state_of(ctx)
    places = put_back(_kept(state, keys=True), source.expanduser(), force=force)

    then = Text("look whether all is well: hookgate audit verify", style="dim")
    said = [*(f"put back {place}" for place in places), then]
    state.show({"files": [str(place) for place in places]}, said)


def _check(state: State, copy: Path) -> None:
    """Show whether a copy can be used."""
    found = state.run(_rehearsed(state, copy))
    audit, outdated = found["audit"], [row for row in found["tables"] if not row["current"]]
    ok = audit["ok"] and not outdated

    why = audit["why"] or "rows were sealed with a key that is neither in it nor in the settings"
    record = "is as it was written" if audit["ok"] else f"is wrong: {why}"
    said = [
        f"{copy} holds {', '.join(found['holds'])}",
        f"the record of {audit['rows']} rows {record}",
        *(f"the tables of {row['plugin']} are at {row['version']}" for row in outdated),
        "it can be put back" if ok else "it cannot be relied on",
    ]
    state.show({"ok": ok, "file": str(copy), **found}, said, failed=not ok)


async def _rehearsed(state: State, copy: Path) -> dict[str, Any]:
    """Put a copy back where nobody else is, start there, and return what was found.

    Raises:
        BackupError: It is no copy, or is damaged.
        StartError: No gateway of this version starts with it.
    """
    import asyncio
    import tempfile

    from hookgate.builtin_plugins.audit.settings import AuditSettings
    from hookgate.builtin_plugins.storage.backup import Kept, put_back
    from hookgate.cli.client.local import LocalClient
    from hookgate.cli.trace import isolated

    with tempfile.TemporaryDirectory(prefix="hookgate-rehearsal-") as folder:
        home = Path(folder)
        store = home / "hookgate.db"
        files, former = {name: home / name for name in FILES}, home / "former-keys"
        kept = Kept(store=store, files=files, keys=home / "keys", former=former)
        places = await asyncio.to_thread(put_back, kept, copy, force=False)
        settings = isolated(state.settings, folder, demo=True)
        # Its own keys and channels are none of the copy's business.
        plugin = {
            "storage": {"fallback": "refuse"},
            "embedding": {"embedder": "none"},
            "audit": {
                "key_secret": state.section("audit", AuditSettings).key_secret,
                "former_keys": [str(one) for one in places if one.parent == former],
            },
        }
        settings = settings.model_copy(update={"plugin": plugin})
        async with state.gateway(settings) as gateway:
            client = LocalClient(gateway)
            audit = await client.call("audit.verify", {"heads": []})
            tables = (await client.call("db.status"))["tables"]
    holds = sorted(str(place.relative_to(home)) for place in places)
    return {"holds": holds, "audit": audit, "tables": tables}


def _kept(state: State, *, keys: bool) -> Kept:
    """Return what belongs to the gateway of these settings, and where.

    Raises:
        BackupError: The store is no file.
    """
    from hookgate.builtin_plugins.audit.settings import AuditSettings
    from hookgate.builtin_plugins.storage.backup import FORMER, BackupError, Kept
    from hookgate.builtin_plugins.storage.settings import StorageSettings

    settings = state.settings
    home = settings.home.expanduser()
    storage = state.section("storage", StorageSettings)
    if storage.shared:
        raise BackupError(
            "the store is a PostgreSQL database, which has tools of its own: `pg_dump "
            "--format=custom --file=hookgate.dump DATABASE` copies it while gateways run, and "
            f"`pg_restore --dbname=DATABASE hookgate.dump` puts it back; copy {home} (with "
            "`audit.key`, `audit.head` and `keys`) beside it"
        )
    audit = state.section("audit", AuditSettings)
    former: dict[str, Path] = {}
    for path in audit.former_keys:
        name = f"{FORMER}{path.name}"
        while name in former:
            name += ".former"
        former[name] = path.expanduser()
    return Kept(
        store=storage.database(home),
        files={
            "audit.key": (audit.key_file or home / "audit.key").expanduser(),
            "audit.head": home / "audit.head",
            "revoked-tokens.json": home / "revoked-tokens.json",
            "config.toml": state.source.path or home / "config.toml",
            **former,
        },
        keys=home / "keys" if keys else None,
        former=home,
    )
