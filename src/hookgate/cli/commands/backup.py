"""``hookgate backup`` and ``hookgate restore``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hookgate.cli.state import JsonOption, State, state_of

if TYPE_CHECKING:
    from hookgate.builtin_plugins.storage.backup import Kept


def backup(
    ctx: typer.Context,
    target: Annotated[
        Path,
        typer.Argument(
            help="A folder, in which the copy is named by the time; or a file, such as x.tar."
        ),
    ],
    with_keys: Annotated[
        bool, typer.Option("--with-keys", help="Copy the key files of providers as well.")
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace a file that is there.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Copy the store, the key and head of the audit, and the settings, into one file.

    The gateway may run meanwhile. The file holds all that was said, and the key of the audit:
    it is readable by its owner alone, and belongs where nobody else reads.

    Example:
        hookgate backup ~/backups --with-keys
    """
    from datetime import UTC, datetime

    from hookgate.builtin_plugins.storage.backup import back_up

    del as_json  # Read by the state.
    state = state_of(ctx)
    kept = _kept(state, keys=with_keys)
    place, names = back_up(kept, target.expanduser(), now=datetime.now(UTC), force=force)
    data = {"file": str(place), "holds": names}

    def render(console: object) -> None:
        state.out.print(f"wrote {place}: {', '.join(names)}", markup=False, soft_wrap=True)
        if not with_keys:
            state.out.print(
                "key files of providers are not in it (`--with-keys`)", style="dim", soft_wrap=True
            )

    state.show(data, render)


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
    from hookgate.builtin_plugins.storage.backup import put_back

    del as_json  # Read by the state.
    state = state_of(ctx)
    places = put_back(_kept(state, keys=True), source.expanduser(), force=force)

    def render(console: object) -> None:
        for place in places:
            state.out.print(f"put back {place}", markup=False, soft_wrap=True)
        state.out.print("look whether all is well: hookgate audit verify", style="dim")

    state.show({"files": [str(place) for place in places]}, render)


def _kept(state: State, *, keys: bool) -> Kept:
    """Return what belongs to the gateway of these settings, and where.

    Raises:
        BackupError: The store is no file.
    """
    from hookgate.builtin_plugins.audit.settings import AuditSettings
    from hookgate.builtin_plugins.storage.backup import BackupError, Kept
    from hookgate.builtin_plugins.storage.settings import StorageSettings

    settings = state.settings
    home = settings.home.expanduser()
    storage = StorageSettings.model_validate(settings.plugin.get("storage", {}))
    if storage.shared:
        raise BackupError(
            "the store is a PostgreSQL database, which has tools of its own: `pg_dump "
            "--format=custom --file=hookgate.dump DATABASE` copies it while gateways run, and "
            f"`pg_restore --dbname=DATABASE hookgate.dump` puts it back; copy {home} (with "
            "`audit.key`, `audit.head` and `keys`) beside it"
        )
    audit = AuditSettings.model_validate(settings.plugin.get("audit", {}))
    return Kept(
        store=storage.database(home),
        files={
            "audit.key": (audit.key_file or home / "audit.key").expanduser(),
            "audit.head": home / "audit.head",
            "revoked-tokens.json": home / "revoked-tokens.json",
            "config.toml": state.source.path or home / "config.toml",
        },
        keys=home / "keys" if keys else None,
    )
