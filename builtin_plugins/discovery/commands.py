"""``hookgate capabilities``: checking and writing their files, which needs no gateway.

`list` and `show` are operations of the plugin ``discovery``.
"""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from hookgate import counted
from hookgate.kit.commands import CommandGroup, JsonOption, State, state_of

if TYPE_CHECKING:
    from hookgate.builtin_plugins.discovery.sources.folders import Scan

app = typer.Typer(
    cls=CommandGroup,
    no_args_is_help=True,
    help="Capabilities: list and show them, check their files, begin new ones.",
)


@app.command()
def validate(
    ctx: typer.Context,
    path: Annotated[
        Path | None,
        typer.Argument(
            help="A CAPABILITY.yaml, a SKILL.md, a catalogue of extensions, or a folder; "
            "without it, all folders that the gateway reads.",
            exists=True,
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Check manifests, skills and catalogues; no gateway is needed.

    Exit code 1 if a capability would be passed over; warnings alone do no harm.

    Example:
        hookgate capabilities validate .hookgate/capabilities
    """
    from hookgate.builtin_plugins.discovery.sources.scaffold import check_path
    from hookgate.kit.rendering import checked

    state = state_of(ctx)
    found = _everything(state) if path is None else check_path(path)
    ids = [declared.row.id for declared in found.declared]
    bad = any(problem.severity == "error" for problem in found.problems)
    data = {
        "ok": not bad,
        "capabilities": ids,
        "problems": [asdict(problem) for problem in found.problems],
    }

    count = counted(len(ids), "capability", "capabilities")
    state.show(data, checked(found.problems, count), failed=bad)


def _everything(state: State) -> Scan:
    """Return what is in the folders that the gateway of these settings would read."""
    from hookgate.builtin_plugins.discovery.settings import DiscoverySettings
    from hookgate.builtin_plugins.discovery.sources.collection import read_catalogue
    from hookgate.builtin_plugins.discovery.sources.folders import Scan, roots_of, scan
    from hookgate.settings import users_home

    section = state.section("discovery", DiscoverySettings)
    roots = roots_of(
        state.settings.home,
        environ=state.environ,
        user_home=users_home(),
        workspace=Path.cwd(),
        # Files are checked where they are written, whether anybody has accepted them or not.
        accepted=Path.cwd(),
        folder=state.settings.folder,
        dirs=section.dirs,
        skill_dirs=section.skill_dirs,
    )
    found = scan(roots)
    if section.catalogue is not None:
        listed = read_catalogue(section.catalogue)
        found = Scan(
            declared=(*found.declared, *listed.found),
            problems=(*found.problems, *listed.problems),
        )
    return found


@app.command()
def new(
    ctx: typer.Context,
    kind: Annotated[
        Literal["tool", "skill", "extension", "channel"],
        typer.Argument(help="tool, skill, extension or channel."),
    ],
    name: Annotated[str, typer.Argument(help="Its name, which becomes the folder's, too.")],
    folder: Annotated[
        Path | None,
        typer.Option("--dir", help="Where; without it, `capabilities` in the home folder."),
    ] = None,
    example: Annotated[
        list[str] | None,
        typer.Option(
            help="A message that asks for it, as people would write it: it is found by it. "
            "Repeat it for others; without it you are asked, on a terminal."
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Write the files of a new capability, to be filled in. Nothing is overwritten.

    Examples:
        hookgate capabilities new skill weekly-report --dir .hookgate/capabilities
        hookgate capabilities new tool weather --example "will it rain" --example "how warm is it"
    """
    from hookgate.builtin_plugins.discovery.sources.scaffold import create

    state = state_of(ctx)
    examples = example or []
    if example is None and not as_json and sys.stdin.isatty():
        examples = _asked()
    files = create(kind, name, folder or state.settings.home / "capabilities", examples)

    state.show({"files": [str(file) for file in files]}, [f"wrote {file}" for file in files])


def _asked() -> list[str]:
    """Return the example messages that somebody types; an empty line ends them."""
    from hookgate.catalogue import EXAMPLES, ExamplesError, checked_examples

    def checked(text: str) -> str:
        try:
            return "".join(checked_examples([text] if text.strip() else []))
        except ExamplesError as error:
            raise typer.BadParameter(str(error)) from error

    typer.echo(
        "Which messages would ask for it? It is found by them; five that differ do much. "
        "An empty line ends.",
        err=True,
    )
    examples: list[str] = []
    while len(examples) < EXAMPLES:
        text = typer.prompt("message", "", show_default=False, value_proc=checked, err=True)
        if not text:
            break
        examples.append(text)
    return examples


COMMANDS = {"capabilities": app}
"""What the command line finds here, by its words."""
