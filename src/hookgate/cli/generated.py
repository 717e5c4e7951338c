"""Commands made of operations: each that declares a `command` gets one, with options.

The parameters' JSON Schema says what the command takes. What is required and simple is an
argument, the rest are options; arrays and objects that are not simple are given as JSON.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from hookgate.cli.state import JsonOption, State, state_of

SHIPPED = Path(__file__).parent / "operations.json"
"""The operations of builtin plugins that have a command; `make docs` writes it."""

KEYS = {"command", "name", "params", "plugin", "summary"}
"""What is read of an operation."""

_SIMPLE: dict[str, type] = {"string": str, "integer": int, "number": float, "boolean": bool}


def commands(state: State, words: Sequence[str]) -> dict[str, Any]:
    """Return the commands and groups that operations bring below `words`, by name.

    Raises:
        HookgateError: The gateway cannot be asked, nor one started here.
    """
    from hookgate.cli.group import CommandGroup

    depth = len(words)
    leaves: dict[str, Mapping[str, Any]] = {}
    groups: dict[str, list[Mapping[str, Any]]] = {}
    for row in operations(state):
        path = row["command"].split()
        if path[:depth] != list(words) or len(path) == depth:
            continue
        if len(path) == depth + 1:
            leaves[path[depth]] = row
        else:
            groups.setdefault(path[depth], []).append(row)
    made: dict[str, Any] = {}
    for name, rows in groups.items():
        plugins = ", ".join(sorted({row["plugin"] for row in rows}))
        help_text = f"Commands of {plugins}."
        made[name] = CommandGroup(
            name=name, help=help_text, no_args_is_help=True, callback=lambda **_: None
        )
    for name, row in leaves.items():
        made[name] = _command(name, row)
    return dict(sorted(made.items()))


def operations(state: State) -> Sequence[Mapping[str, Any]]:
    """Return the operations that have a command, as ``operation.list`` describes them.

    Where no gateway runs, and builtin plugins alone would, nothing is started to learn that.
    """
    from hookgate.cli.brought import only_builtins

    if (running := only_builtins(state)) and not (
        state.note_left and state.run(state.running()) is not None
    ):
        rows = _shipped()
        if rows is not None:
            return [row for row in rows if row["plugin"] in running]
    # All of them: a command that this client may not use says which scope it needs.
    asked: Sequence[Mapping[str, Any]] = state.ask("operation.list", {"all": True})["operations"]
    return [row for row in asked if row["command"]]


def _shipped() -> Sequence[Mapping[str, Any]] | None:
    """Return the operations of builtin plugins; None where the file is missing or damaged."""
    try:
        rows = json.loads(SHIPPED.read_bytes())
    except (OSError, ValueError, RecursionError):
        return None  # A gateway that is started knows them as well, a little later.
    whole = isinstance(rows, list) and all(
        isinstance(row, dict) and row.keys() >= KEYS for row in rows
    )
    return rows if whole else None


def _command(name: str, row: Mapping[str, Any]) -> Any:
    made = typer.Typer(add_completion=False)
    made.command(name, help=f"{row['summary']}\n\nOperation {row['name']} of {row['plugin']}.")(
        function_of(row)
    )
    return typer.main.get_command(made)


def function_of(row: Mapping[str, Any]) -> Callable[..., None]:
    """Return a function with the parameters of an operation, as typer reads them."""
    schema = row["params"]
    properties: Mapping[str, Any] = schema.get("properties", {})
    required = set(schema.get("required", ()))
    parameters = [
        inspect.Parameter("ctx", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=typer.Context)
    ]
    ordered = sorted(properties, key=lambda key: key not in required)
    parameters += [
        _parameter(key, properties[key], schema, required=key in required) for key in ordered
    ]
    parameters.append(
        inspect.Parameter(
            "as_json", inspect.Parameter.KEYWORD_ONLY, default=False, annotation=JsonOption
        )
    )

    def run(ctx: typer.Context, as_json: bool = False, **given: Any) -> None:
        state = state_of(ctx)
        params = {
            key: _value(key, value, properties[key], schema)
            for key, value in given.items()
            if value is not None and value != []
        }
        state.show(state.ask(row["name"], params))

    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {one.name: one.annotation for one in parameters}
    return run


def _parameter(
    key: str, schema: Mapping[str, Any], root: Mapping[str, Any], *, required: bool
) -> inspect.Parameter:
    kind = _python_type(schema, root)
    help_text = _help(schema, root)
    annotation: Any
    if required and kind is not bool:
        annotation = Annotated[kind or str, typer.Argument(help=help_text)]
        default: Any = inspect.Parameter.empty
    else:
        flag = f"--{key.replace('_', '-')}"
        names = f"{flag}/--no-{flag[2:]}" if kind is bool else flag
        annotation = Annotated[(kind or str) | None, typer.Option(names, help=help_text)]
        default = None
    return inspect.Parameter(
        key, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation
    )


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
    return _SIMPLE.get(str(kind))


def _help(schema: Mapping[str, Any], root: Mapping[str, Any]) -> str:
    schema = _resolved(schema, root)
    parts = [str(schema.get("description", "")).strip()]
    if "enum" in schema:
        parts.append(f"One of {', '.join(map(str, schema['enum']))}.")
    if _python_type(schema, root) is None:
        parts.append("As JSON.")
    default = schema.get("default")
    if default not in (None, "", [], {}):
        parts.append(f"Default: {json.dumps(default)}.")
    return " ".join(part for part in parts if part)


def _value(key: str, value: Any, schema: Mapping[str, Any], root: Mapping[str, Any]) -> Any:
    if _python_type(schema, root) is not None or not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except ValueError as error:
        if _resolved(schema, root).get("anyOf"):
            return value  # Text is one of the things that it takes.
        raise typer.BadParameter(f"{key}: found no JSON: {error}") from None
