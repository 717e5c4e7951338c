"""Groups of commands: their own, those that plugins bring, and those of operations."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import typer
from typer.core import TyperGroup

from hookgate.cli.operation_commands import command_of, missing_plugin_of, operations, shipped
from hookgate.cli.plugin_commands import PANEL, commands, loaded, missing_plugin
from hookgate.cli.state import State, state_of
from hookgate.core.domain.errors import ConfigError, HookgateError, StartError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hookgate.cli.operation_commands import Row
    from hookgate.cli.plugin_commands import BroughtCommand


class CommandGroup(TyperGroup):
    """A group whose own commands come first, then those of plugins, then their operations.

    The gateway is asked for its operations only for a command that is not known otherwise,
    and for the help of a group that is not the first: `hookgate --help` starts nothing.
    """

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self.help = reflowed(self.help)
        for command in self.commands.values():
            command.help = reflowed(command.help)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return the command called `cmd_name`, or None where there is none."""
        own = super().get_command(ctx, cmd_name)
        if own is not None:
            return own
        known = _known(ctx).get(cmd_name)
        if known is not None or ctx.resilient_parsing:
            return known() if known else None
        asked = _asked(ctx).get(cmd_name)
        if asked is None:
            _refuse_of_missing(ctx, cmd_name)
            return None
        return asked()

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of the commands, for help and completion."""
        names = dict.fromkeys([*super().list_commands(ctx), *_known(ctx)])
        if ctx.parent is not None and not ctx.resilient_parsing:
            # What the group itself has can be shown without a gateway.
            with suppress(HookgateError):
                names |= dict.fromkeys(_asked(ctx))
        return list(names)


def reflowed(text: str | None) -> str:
    """Return a docstring with each paragraph on one line, for a terminal of any width.

    Indented lines are examples and stay as they are.
    """
    lines: list[str] = []
    for line in inspect.cleandoc(text or "").split("\n"):
        above = lines[-1] if lines else ""
        if above and line and not above.startswith(" ") and not line.startswith(" "):
            lines[-1] += f" {line}"
        else:
            lines.append(line)
    return "\n".join(lines)


def _words(ctx: Any) -> tuple[str, ...]:
    """Return the words that lead to the group of `ctx`."""
    return () if ctx.parent is None else (*_words(ctx.parent), ctx.info_name)


Makers: TypeAlias = "Mapping[str, Callable[[], Any]]"
"""What makes the commands and groups that stand in one place, by name."""


def _known(ctx: Any) -> Makers:
    """Return what is known to stand in the group of `ctx`; no gateway is asked.

    It is what plugins bring, and the operations of builtin ones.
    """
    # Help asks for each command by its name. A context shares its `meta` with those above it.
    kept: dict[tuple[str, ...], Makers] = ctx.meta.setdefault("hookgate.commands", {})
    words = _words(ctx)
    if words not in kept:
        state = state_of(ctx)
        brought = list(commands(state))
        made = _brought(state, words, [one for one in brought if not one.builtin], {})
        # What comes with hookgate counts, whatever others call theirs.
        made |= _below(state, words, shipped(state))
        kept[words] = _brought(state, words, [one for one in brought if one.builtin], made)
    return kept[words]


def _brought(
    state: State, words: tuple[str, ...], some: Sequence[BroughtCommand], known: Makers
) -> dict[str, Callable[[], Any]]:
    """Return what is known, and what is brought: commands in the place of those, groups beside."""
    made, depth = dict(known), len(words)
    for one in some:
        if one.words[:depth] != words or len(one.words) == depth:
            continue
        name = one.words[depth]
        if len(one.words) > depth + 1:
            made.setdefault(name, partial(_group, name, _about(one)))
        elif (command := loaded(state, one)) is not None:
            made[name] = partial(_itself, command)
    return made


def _about(one: BroughtCommand) -> str:
    """Return a sentence on a group of which nothing is known but a command."""
    function = one.load() if one.builtin else None
    if inspect.isfunction(function) and (told := inspect.getdoc(function)):
        return told.partition("\n\n")[0]
    return f"{one.words[-1]}, of {one.plugin}."


def _asked(ctx: Any) -> Makers:
    """Return what operations bring into the group of `ctx`; a gateway may be asked for them."""
    state = state_of(ctx)
    if "hookgate.operations" not in ctx.meta:
        # Each group on the way asks, and help asks for each command by its name.
        ctx.meta["hookgate.operations"] = operations(state)
    return _below(state, _words(ctx), ctx.meta["hookgate.operations"])


def _below(
    state: State, words: tuple[str, ...], rows: Sequence[Row]
) -> dict[str, Callable[[], Any]]:
    made: dict[str, Callable[[], Any]] = {}
    depth = len(words)
    for row in sorted(rows, key=lambda row: str(row["command"])):
        path = tuple(row["command"].split())
        if path[:depth] != words or len(path) == depth:
            continue
        name = path[depth]
        if len(path) == depth + 1:
            made[name] = partial(command_of, state, name, row)
        else:
            made.setdefault(name, partial(_group, name, row.get("group") or row["summary"]))
    return made


def _group(name: str, about: str) -> CommandGroup:
    return CommandGroup(
        name=name,
        help=about,
        no_args_is_help=True,
        callback=lambda **_: None,
        rich_help_panel=PANEL,
    )


def _itself(command: Any) -> Any:
    return command


def _refuse_of_missing(ctx: Any, name: str) -> None:
    """Say whose a command is where its plugin does not run."""
    words = [*_words(ctx), name]
    state = state_of(ctx)
    if plugin := missing_plugin(state, words) or missing_plugin_of(state, words):
        raise StartError(
            f"`hookgate {' '.join(words)}` is a command of the plugin {plugin}, which is switched "
            f"off or replaced: `hookgate plugins why {plugin}` says why"
        )


def guarded(work: Callable[[], Any], state: Callable[[], State]) -> Any:
    """Return what `work` returns; print its errors and turn them into exit codes."""
    try:
        return work()
    except ConfigError as error:
        _print_problems(state(), error)
        raise typer.Exit(2) from None
    except HookgateError as error:
        _print_error(state(), error)
        raise typer.Exit(1) from None
    except OSError as error:
        # A file that somebody has named, as in `--out`; what names none is a fault of ours.
        if (file := error.filename2 or error.filename) is None:
            raise
        _print_error(state(), HookgateError(f"{file}: {(error.strerror or 'failed').lower()}"))
        raise typer.Exit(1) from None
    except KeyboardInterrupt:
        raise typer.Exit(130) from None


def _print_problems(state: State, error: ConfigError) -> None:
    from hookgate.kit.rendering import print_json, problem_line

    if state.json:
        print_json(
            {"error": {"code": "config", "problems": [asdict(one) for one in error.problems]}}
        )
        return
    count = len(error.problems)
    state.err.print(f"[bold red]The settings have {count} problem{'s' * (count > 1)}:[/]")
    for problem in error.problems:
        state.err.print(problem_line(problem), soft_wrap=True)


def _print_error(state: State, error: HookgateError) -> None:
    from rich.text import Text

    from hookgate.kit.rendering import clean, print_json

    data = {"code": getattr(error, "code", "failed"), "action": getattr(error, "action", "")}
    data |= getattr(error, "data", {})
    action = str(data["action"])
    if state.json:
        code = str(data["code"])
        print_json({"error": {"code": code, "message": str(error), "action": action}})
        return
    line = Text.assemble(("Error: ", "bold red"), clean(str(error)))
    state.err.print(line, soft_wrap=True)
    if action:
        state.err.print(Text(f"  {clean(action)}", style="dim"), soft_wrap=True)
