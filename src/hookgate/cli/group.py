"""Groups of commands that look for more of them in the gateway's operations."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any

import typer
from typer.core import TyperGroup

from hookgate.cli.state import State, state_of
from hookgate.core.domain.errors import ConfigError, HookgateError, Problem, StartError


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
        brought = _brought(ctx).get(cmd_name)
        if brought is not None or ctx.resilient_parsing:
            return brought
        generated = _generated(ctx).get(cmd_name)
        if generated is None:
            _refuse_of_missing(ctx, cmd_name)
        return generated

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of the commands, for help and completion."""
        names = dict.fromkeys([*super().list_commands(ctx), *_brought(ctx)])
        if ctx.parent is not None and not ctx.resilient_parsing:
            # What the group itself has can be shown without a gateway.
            with suppress(HookgateError):
                names |= dict.fromkeys(_generated(ctx))
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


def _words(ctx: Any) -> list[str]:
    """Return the words that lead to the group of `ctx`."""
    words: list[str] = []
    while ctx.parent is not None:
        words.insert(0, ctx.info_name)
        ctx = ctx.parent
    return words


def _brought(ctx: Any) -> dict[str, Any]:
    """Return the commands that plugins bring into the group of `ctx`; no gateway is asked."""
    from hookgate.cli.brought import commands

    words = _words(ctx)
    # Help asks for each command by its name. A context shares its `meta` with those above it.
    kept: dict[tuple[str, ...], dict[str, Any]] = ctx.meta.setdefault("hookgate.brought", {})
    if tuple(words) not in kept:
        kept[tuple(words)] = commands(state_of(ctx), words)
    return kept[tuple(words)]


def _refuse_of_missing(ctx: Any, name: str) -> None:
    """Say whose a command is where its plugin does not run."""
    from hookgate.cli.brought import missing_plugin

    words = [*_words(ctx), name]
    if plugin := missing_plugin(state_of(ctx), words):
        raise StartError(
            f"`hookgate {' '.join(words)}` is a command of the plugin {plugin}, which is switched "
            f"off or replaced: `hookgate plugins why {plugin}` says why"
        )


def _generated(ctx: Any) -> dict[str, Any]:
    """Return the commands that operations declare in the group of `ctx`."""
    from hookgate.cli.generated import commands

    return commands(state_of(ctx), _words(ctx))


class RootGroup(CommandGroup):
    """The first group: what goes wrong below it becomes an exit code, and no stack trace."""

    def invoke(self, ctx: Any) -> Any:
        """Run a command."""
        return guarded(lambda: super(RootGroup, self).invoke(ctx), lambda: state_of(ctx))


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
    except KeyboardInterrupt:
        raise typer.Exit(130) from None


def _print_problems(state: State, error: ConfigError) -> None:
    from rich.text import Text

    from hookgate.kit.rendering import one_line, print_json

    if state.json:
        print_json({"error": {"code": "config", "problems": problem_rows(error.problems)}})
        return
    count = len(error.problems)
    state.err.print(f"[bold red]The settings have {count} problem{'s' * (count > 1)}:[/]")
    for problem in error.problems:
        place = problem.file if problem.line is None else f"{problem.file}:{problem.line}"
        line = Text("  ")
        line.append(one_line(place), style="cyan")
        if problem.key:
            line.append(f"  {one_line(problem.key)}", style="bold")
        state.err.print(line, soft_wrap=True)
        state.err.print(Text(f"    found {one_line(problem.found)}"), soft_wrap=True)
        state.err.print(Text(f"    expected {one_line(problem.expected)}"), soft_wrap=True)
        if problem.nearest:
            state.err.print(
                Text.assemble("    did you mean ", (one_line(problem.nearest), "bold green"), "?"),
                soft_wrap=True,
            )


def problem_rows(problems: Iterable[Problem]) -> Sequence[dict[str, Any]]:
    """Return `problems` for programs."""
    return [
        {
            "file": problem.file,
            "line": problem.line,
            "key": problem.key,
            "found": problem.found,
            "expected": problem.expected,
            "nearest": problem.nearest,
        }
        for problem in problems
    ]


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
