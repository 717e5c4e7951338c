"""Commands made of operations: options of the parameters, help of the texts, a view of the result.

The parameters' JSON Schema says what a command takes. What is required or positional is a word,
the rest are options; arrays and objects that are not simple are given as JSON, texts by name as
NAME=VALUE, and a long text as @FILE where its schema says ``file``. A view is a function of the
result that returns or yields what is shown of it: texts, and what `rich` can print. It stands in a
module that loads nothing of a gateway. A `View` says more of a command.
"""

from __future__ import annotations

import inspect
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from keyword import iskeyword
from pathlib import Path
from types import SimpleNamespace
from typing import Annotated, Any, TypeAlias, get_type_hints

import typer

from hookgate.cli.plugin_commands import PANEL, builtins, view
from hookgate.cli.state import JsonOption, State, state_of
from hookgate.core.domain.errors import HookgateError, StartError, counted

SHIPPED = Path(__file__).parent / "operations.json"
"""The operations of builtin plugins that have a command; `make docs` writes it."""

KEYS = {"command", "name", "params", "plugin", "summary"}
"""What is read of an operation."""

Row: TypeAlias = "Mapping[str, Any]"
"""An operation, as ``operations.list`` describes it."""

VERDICTS = ("ok", "intact")
"""Members of a result that say whether all is well; where one does not, a command ends with 1."""

OutOption = Annotated[
    Path | None,
    typer.Option("--out", help="The file; without it, or for `-`, it goes to standard output."),
]

ImportArgument = Annotated[
    Path, typer.Argument(metavar="FILE", help="An export.", exists=True, dir_okay=False)
]

PAGING = {"after", "limit"}
"""Parameters by which an export goes from page to page."""
BATCHING = {"check", "first", "source"}
"""Parameters by which an import goes through a file: only look at these rows, the number of the
first of them, and the name of the file."""
BATCH = 500
"""Rows of an import that are sent at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """What the command of an operation is beside its parameters.

    Attributes:
        shown: Returns or yields what is shown of the result; of an export, the lines of a file.
        export: A member of the result: the command writes what it holds, one JSON object a line,
            through all pages (`after` and `next`), to standard output or the file of ``--out``.
        imports: A parameter: the command takes a file of such lines and hands its rows over, some
            at a time. Where the operation has `check`, all of them are looked at before any is
            taken in. What is shown is the sums of the results' figures.
        wanted: Returns whether a row of an import is handed over; without it, all are.
        running: Whether it means something for a gateway that runs by itself alone.
        settings: Settings for a gateway in this process, in the place of those that are set.
    """

    shown: Callable[..., Any] | None = None
    export: str = ""
    imports: str = ""
    wanted: Callable[[Mapping[str, Any]], bool] | None = None
    running: bool = False
    settings: Mapping[str, Any] = field(default_factory=dict)


_SIMPLE: dict[str, type] = {"string": str, "integer": int, "number": float, "boolean": bool}


def operations(state: State) -> Sequence[Row]:
    """Return the operations that have a command, as ``operations.list`` describes them.

    Where no gateway runs, none is started to learn that: what builtin plugins bring stands in a
    file, and those of others are asked without being opened, if that is enough for them.

    Raises:
        HookgateError: The gateway cannot be asked, nor one started here.
    """
    running, alone = builtins(state)
    if not (state.note_left and state.run(state.running()) is not None):
        rows, others = _shipped(), () if alone else _of_others(state)
        if rows is not None and others is not None:
            own = [row for row in rows if row["plugin"] in running]
            taken = {row["name"] for row in own}
            return [*own, *(row for row in others if row["name"] not in taken)]
    # All of them: a command that this client may not use says which scope it needs.
    asked: Sequence[Row] = state.ask("operations.list", {"all": True})["operations"]
    return [row for row in asked if row["command"]]


def _of_others(state: State) -> Sequence[Row] | None:
    """Return the operations of third parties that have a command.

    None where one of them has to be opened before it can name its own.
    """
    import structlog

    from hookgate import hookspecs
    from hookgate.core.hooks.caller import Hooks
    from hookgate.core.host import Host
    from hookgate.core.settings.secret_store import SecretStore
    from hookgate.kit.functions.operations import describe_operation

    plugins, _ = state.survey(builtin=())
    settings, log = state.settings, structlog.get_logger("hookgate")
    host = Host(settings, SecretStore(settings, state.environ), log)

    async def asked() -> list[Row]:
        hooks = Hooks(plugins.manager, log=log)
        try:
            answers = await hooks.each_by_plugin(hookspecs.list_operations, host)
        finally:
            await hooks.close()
        return [
            describe_operation(replace(one, plugin=answer.plugin))
            for answer in answers
            for one in answer.value or ()
            if one.command
        ]

    try:
        return state.run(asked())
    except HookgateError:
        return None  # One of them has to be opened before it can say what it brings.


def shipped(state: State) -> Sequence[Row]:
    """Return the operations of the builtin plugins that run here; no gateway is asked."""
    running, _ = builtins(state)
    return [row for row in _shipped() or () if row["plugin"] in running]


def missing_plugin_of(state: State, words: Sequence[str]) -> str:
    """Return the builtin plugin whose operation would have the command; "" where it runs."""
    running, _ = builtins(state)
    wanted = list(words)
    off = [row for row in _shipped() or () if row["plugin"] not in running]
    found = [row for row in off if row["command"].split()[: len(wanted)] == wanted]
    return str(found[0]["plugin"]) if found else ""


def _shipped() -> Sequence[Row] | None:
    """Return the operations of builtin plugins; None where the file is missing or damaged."""
    try:
        rows = json.loads(SHIPPED.read_bytes())
    except (OSError, ValueError, RecursionError):
        return None  # A gateway that is started knows them as well, a little later.
    whole = isinstance(rows, list) and all(
        isinstance(row, dict) and row.keys() >= KEYS for row in rows
    )
    return rows if whole else None


def command_of(state: State, name: str, row: Row) -> Any:
    """Return the command called `name` of an operation."""
    made = typer.Typer(add_completion=False)
    told = "\n\n".join(filter(None, (row["summary"], row.get("details", ""))))
    about = f"Operation {row['name']} of {row['plugin']}."
    made.command(name, help=f"{told}\n\n{about}")(function_of(row, view(state, row["name"])))
    command: Any = typer.main.get_command(made)
    command.rich_help_panel = PANEL
    return command


def function_of(row: Row, shown: View | Callable[..., Any] | None = None) -> Callable[..., None]:
    """Return a function with the parameters of an operation, as typer reads them.

    Args:
        row: The operation.
        shown: Its view. Arguments by name are options of the command, and ``width`` is the
            terminal's.
    """
    schema = row["params"]
    view = shown if isinstance(shown, View) else View(shown=shown)
    properties: Mapping[str, Any] = schema.get("properties", {})
    own = PAGING if view.export else {*BATCHING, view.imports} if view.imports else set[str]()
    properties = {key: one for key, one in properties.items() if key not in own}
    required = set(schema.get("required", ()))
    parameters = [
        inspect.Parameter("ctx", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=typer.Context)
    ]
    words = {key for key in properties if key in required or properties[key].get("positional")}
    parameters += [
        _parameter(key, properties[key], schema, word=key in words, required=key in required)
        for key in sorted(properties, key=lambda key: key not in words)
    ]
    of_view = _options(view.shown)
    parameters += [one for one in of_view if one.name != "width"]
    always: dict[str, tuple[Any, Any]] = {"as_json": (False, JsonOption)}
    if view.export:
        always["out"] = (None, OutOption)
    if view.imports:
        always["file"] = (inspect.Parameter.empty, ImportArgument)
    parameters += [
        inspect.Parameter(key, inspect.Parameter.KEYWORD_ONLY, default=usual, annotation=kind)
        for key, (usual, kind) in always.items()
    ]

    def run(ctx: typer.Context, as_json: bool = False, **given: Any) -> None:
        state = state_of(ctx)
        if view.running and not state.alone and state.run(state.running()) is None:
            raise StartError("no gateway runs with these settings")
        state.override(view.settings)
        out, file = given.pop("out", None), given.pop("file", None)
        chosen = {one.name: given.pop(one.name, state.out.width) for one in of_view}
        params = {
            key: _value(key, value, properties[key], schema)
            for key in properties
            if (value := given.get(_named_in_python(key))) is not None and value != []
        }
        if view.export:
            _export(state, _pages(state, row["name"], params), view, out)
            return
        found: Any = (
            _import(state, row, params, view, file)
            if view.imports
            else state.ask(row["name"], params)
        )
        shown = None if view.shown is None else view.shown(found, **chosen)
        bad = isinstance(found, dict) and any(found.get(name) is False for name in VERDICTS)
        state.show(found, shown, failed=bad)

    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {one.name: one.annotation for one in parameters}
    return run


def _pages(state: State, operation: str, params: Mapping[str, Any]) -> Iterator[Any]:
    after: Any = None
    while True:
        page = state.ask(operation, {**params, "after": after} if after else params)
        yield page
        after = page["next"]
        if not after:
            return


def read_export(path: Path, command: str) -> list[dict[str, Any]]:
    """Return the rows of a file that an export wrote, one JSON object a line.

    Args:
        path: The file.
        command: What writes such files, for what is said where this is none.

    Raises:
        StartError: It cannot be read, or a line is none.
    """
    try:
        # Not `splitlines`: to JSON, a text may hold U+2028 and U+0085 as they are.
        lines = path.read_text(encoding="utf-8-sig").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise StartError(f"{path} cannot be read as UTF-8 text: {error}") from error
    rows: list[dict[str, Any]] = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except ValueError as error:
            raise StartError(
                f"line {number} of {path} is no JSON ({error}): expected a file that "
                f"`{command}` wrote"
            ) from error
        if not isinstance(row, dict):
            raise StartError(
                f"found {type(row).__name__} in line {number} of {path}, expected an object"
            )
        rows.append(row)
    return rows


def _import(
    state: State, row: Row, params: Mapping[str, Any], view: View, file: Path
) -> dict[str, int]:
    """Hand over the rows of a file, and return the sums of what became of them."""
    from hookgate.core.domain.strict_json import well_formed

    rows = read_export(file, f"hookgate {row['command'].replace('import', 'export')} --out FILE")
    rows = [one for one in rows if view.wanted is None or view.wanted(one)]
    known = row["params"]["properties"]
    done: Counter[str] = Counter()
    for check in (True, False) if "check" in known else (False,):
        for begin in range(0, max(len(rows), 1), BATCH):
            of_file = {"check": check, "first": begin + 1, "source": well_formed(file.name)[:200]}
            answer = state.ask(
                row["name"],
                {
                    **params,
                    **{name: value for name, value in of_file.items() if name in known},
                    view.imports: rows[begin : begin + BATCH],
                },
            )
            done.update({name: 0 if check else count for name, count in answer.items()})
    return dict(done)


def _export(state: State, pages: Iterable[Any], view: View, out: Path | None) -> None:
    """Write the lines of an export, to standard output or whole into a file."""
    from hookgate.core.domain.strict_json import canonical
    from hookgate.core.settings.whole_file import write_whole

    count = 0

    def items() -> Iterator[Any]:
        nonlocal count
        for page in pages:
            count += len(page[view.export])
            yield from page[view.export]

    written = items() if view.shown is None else view.shown(items())
    lines = (canonical(one) + b"\n" for one in written)
    if out is None or out == Path("-"):
        for line in lines:
            typer.echo(line, nl=False)
        return
    write_whole(out.expanduser(), lambda file: file.writelines(lines), durable=True)
    said = f"wrote {counted(count, view.export.removesuffix('s'))} to {out}"
    state.show({"file": str(out), view.export: count}, said)


def _options(shown: Callable[..., Any] | None) -> Sequence[inspect.Parameter]:
    """Return the arguments by name of a view, with their types."""
    if shown is None:
        return ()
    found = inspect.signature(shown).parameters.items()
    options = {name: one for name, one in found if one.kind is one.KEYWORD_ONLY}
    wanted = SimpleNamespace(
        __annotations__={name: one.annotation for name, one in options.items()}
    )
    hints = get_type_hints(wanted, shown.__globals__, include_extras=True)
    return [one.replace(annotation=hints[name]) for name, one in options.items()]


def _parameter(
    key: str,
    schema: Mapping[str, Any],
    root: Mapping[str, Any],
    *,
    word: bool,
    required: bool,
) -> inspect.Parameter:
    kind = _python_type(schema, root)
    help_text = _help(schema, root)
    annotation: Any
    if word and kind is not bool:
        annotation = Annotated[kind or str, typer.Argument(help=help_text)]
        default: Any = inspect.Parameter.empty if required else None
    else:
        flag = f"--{key.replace('_', '-')}"
        names = f"{flag}/--no-{flag[2:]}" if kind is bool else flag
        annotation = Annotated[(kind or str) | None, typer.Option(names, help=help_text)]
        default = None
    return inspect.Parameter(
        _named_in_python(key),
        inspect.Parameter.KEYWORD_ONLY,
        default=default,
        annotation=annotation,
    )


def _named_in_python(key: str) -> str:
    """Return what a parameter is called whose name may be a word of the language, as ``for``."""
    return f"{key}_" if iskeyword(key) else key


def _resolved(schema: Mapping[str, Any], root: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a schema without its reference and without null."""
    own = {key: schema[key] for key in ("default", "description") if key in schema}
    if "$ref" in schema:
        return {**_resolved(root["$defs"][schema["$ref"].rpartition("/")[2]], root), **own}
    branches = [one for one in schema.get("anyOf", ()) if one.get("type") != "null"]
    if len(branches) == 1:
        return {**_resolved(branches[0], root), **own}
    return schema


def _python_type(schema: Mapping[str, Any], root: Mapping[str, Any]) -> Any:
    """Return the type that typer reads; None for what is given as JSON."""
    schema = _resolved(schema, root)
    kind = schema.get("type")
    if kind == "array" and _resolved(schema.get("items", {}), root).get("type") == "string":
        return list[str]
    if _named_texts(schema):
        return list[str]
    return _SIMPLE.get(str(kind))


def _named_texts(schema: Mapping[str, Any]) -> bool:
    more = schema.get("additionalProperties")
    return isinstance(more, dict) and more.get("type") == "string"


def _help(schema: Mapping[str, Any], root: Mapping[str, Any]) -> str:
    schema = _resolved(schema, root)
    parts = [str(schema.get("description", "")).strip()]
    if "enum" in schema:
        parts.append(f"One of {', '.join(map(str, schema['enum']))}.")
    if _python_type(schema, root) is None:
        parts.append("As JSON.")
    if _named_texts(schema):
        parts.append("NAME=VALUE; may be repeated.")
    if schema.get("file"):
        parts.append("@FILE is what stands in a file.")
    default = schema.get("default")
    if default not in (None, "", [], {}):
        parts.append(f"Default: {json.dumps(default)}.")
    return " ".join(part for part in parts if part)


def _value(key: str, value: Any, schema: Mapping[str, Any], root: Mapping[str, Any]) -> Any:
    resolved = _resolved(schema, root)
    if _named_texts(resolved):
        return dict(_named(key, one) for one in value)
    if resolved.get("file") and value.startswith("@"):
        return _content(key, Path(value[1:]).expanduser())
    if _python_type(schema, root) is not None or not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except ValueError as error:
        if resolved.get("anyOf"):
            return value  # Text is one of the things that it takes.
        raise typer.BadParameter(f"{key}: found no JSON: {error}") from None


def _named(key: str, text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not (name and equals):
        raise typer.BadParameter(f"found --{key} {text!r}, expected NAME=VALUE")
    return name, value


def _content(key: str, file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise typer.BadParameter(f"{key}: {file} cannot be read as UTF-8 text: {error}") from None
