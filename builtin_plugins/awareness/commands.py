"""``hookgate cards``: checking and writing card files, which needs no gateway.

What asks about the cards of a gateway are operations of the plugin ``awareness``.
"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hookgate import counted
from hookgate.kit.commands import CommandGroup, JsonOption, State, checks, state_of

if TYPE_CHECKING:
    from hookgate.builtin_plugins.awareness.cards.folders import CardFolder

app = typer.Typer(
    cls=CommandGroup,
    no_args_is_help=True,
    help="Cards that make models aware of capabilities: check their files, begin new ones.",
)


@app.command()
def validate(
    ctx: typer.Context,
    path: Annotated[
        Path | None,
        typer.Argument(
            help="A card or a folder of cards; without it, all folders that the gateway reads.",
            exists=True,
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Check cards and what they say to a model; no gateway is needed.

    Exit code 1 if a card would be passed over; warnings alone do no harm.

    Example:
        hookgate cards validate .hookgate/cards
    """
    from hookgate.builtin_plugins.awareness.cards.folders import check_path
    from hookgate.builtin_plugins.awareness.cards.folders import scan as scan_folders
    from hookgate.kit.rendering import checked

    state = state_of(ctx)
    folders = _folders(state, every=path is not None)
    found = scan_folders(folders) if path is None else check_path(path, folders)
    problems = list(found.problems)
    for file in found.files:
        if file.reading.one is not None:
            for objections in checks(state, "card"):
                problems += objections(file.reading.one, file.reading.line)
    rejected = {problem.file for problem in problems if problem.severity == "error"}
    ids = [card.id for card in found.cards if card.source_ref not in rejected]
    data = {
        "ok": not rejected,
        "cards": ids,
        "problems": [asdict(problem) for problem in problems],
    }

    state.show(data, checked(problems, counted(len(ids), "card")), failed=bool(rejected))


@app.command()
def new(
    ctx: typer.Context,
    card_id: Annotated[
        str, typer.Argument(metavar="ID", help="Its id, which becomes the file's name, too.")
    ],
    folder: Annotated[
        Path | None,
        typer.Option(
            "--folder",
            help="Where; without it, the first of `dirs` in the settings of `plugin.awareness`, "
            "or .hookgate/cards.",
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Write a new card, to be filled in. Nothing is overwritten.

    Example:
        hookgate cards new weekly-report --folder docs/cards
    """
    from hookgate.builtin_plugins.awareness.cards.folders import create, is_same

    state = state_of(ctx)
    read = _folders(state)
    if folder is None:
        named = [one.path for one in read if one.origin == "configured"]
        folder = next(iter(named), Path.cwd() / ".hookgate" / "cards")
    file = create(card_id, folder)
    is_read = any(is_same(one.path, folder) for one in read)

    said = [f"wrote {file}"]
    if not is_read:
        said.append(
            "The gateway does not read this folder: add it to `dirs` of [plugin.awareness], or set "
            "`allow_workspace_cards = true` there for .hookgate/cards, and "
            "`hookgate workspace accept`."
        )
    state.show({"file": str(file), "read": is_read}, said)


def _folders(state: State, *, every: bool = False) -> tuple[CardFolder, ...]:
    """Return the folders that the gateway of these settings would read.

    Args:
        state: What was asked for.
        every: Whether those that must be allowed count as allowed.
    """
    from hookgate.builtin_plugins.awareness.cards.folders import folders_of
    from hookgate.builtin_plugins.awareness.settings import AwarenessSettings

    section = state.section("awareness", AwarenessSettings)
    return folders_of(
        home=state.settings.home.expanduser(),
        workspace=Path.cwd(),
        dirs=section.dirs,
        allow_workspace_cards=every or section.allow_workspace_cards,
        allow_user_capabilities=every or section.allow_user_capabilities,
        # Files are checked where they are written, whether anybody has accepted them or not.
        accepted=Path.cwd(),
    )


COMMANDS = {"cards": app}
"""What the command line finds here, by its words."""
