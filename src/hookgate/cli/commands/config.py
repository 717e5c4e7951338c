"""``hookgate config``: what is set, whether it is right, and what can be set."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Annotated, Any

import typer

from hookgate.cli.group import CommandGroup
from hookgate.cli.state import JsonOption, State, state_of

app = typer.Typer(
    cls=CommandGroup, no_args_is_help=True, help="Settings: show, check, describe them."
)


@app.command()
def show(
    ctx: typer.Context,
    section: Annotated[
        str, typer.Argument(help="Only this section, such as `gateway` or `plugin.memory`.")
    ] = "",
    everything: Annotated[
        bool, typer.Option("--all", "--effective", help="Show defaults, too.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Show the settings in force, and where each comes from. Secrets are masked.

    They are those of the gateway that runs; where none does, or with `hookgate --local`, those
    that one would start with here.

    Examples:
        hookgate config show --effective
        hookgate config show plugin.memory
        HOOKGATE_GATEWAY__PORT=7300 hookgate --local config show
    """
    from rich.text import Text

    from hookgate.kit.rendering import table

    state = state_of(ctx)
    if state.note_left and state.run(state.running()) is not None:
        found = state.ask("config.show", {"section": section, "all": everything})
    else:
        found = {"settings": _settings(state, section, everything)}
    rows = found["settings"]

    none = Text("Nothing is set: all defaults. `--all` shows them.", style="dim")
    state.show(found, table([_shown(row) for row in rows]) if rows else none)


def _settings(state: State, section: str, everything: bool) -> list[dict[str, Any]]:
    """Return what a gateway would start with."""
    from hookgate.core.domain.errors import ConfigError
    from hookgate.core.settings.values import set_values, values_of

    settings = state.settings
    # Only for defaults, and to know all sections, plugins are loaded.
    models = state.make_gateway(settings).plugins.models() if everything or section else {}
    try:
        rows = values_of(set_values(settings, models), section)
    except ConfigError as error:
        raise typer.BadParameter(str(error), param_hint="SECTION") from None
    return [asdict(row) for row in rows if everything or row.layer != "default"]


def _shown(row: Mapping[str, Any]) -> dict[str, Any]:
    import json

    value = row["value"]
    return {
        "key": row["key"],
        "value": "-" if value is None else json.dumps(value, ensure_ascii=False),
        "layer": row["layer"],
        "from": f"{row['place']}{' (waits for a restart)' * row['restart']}",
    }


@app.command()
def check(
    ctx: typer.Context,
    strict: Annotated[
        bool,
        typer.Option(
            "--strict",
            help="For machines: what is a note otherwise is wrong, and so are variables that "
            "nothing reads and a home that cannot be written.",
        ),
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Check the settings, those of plugins too; exit code 2 if anything is wrong.

    Checked as well, without asking anybody: whether the agents' models have a provider, and the
    providers a key; the agents' souls; and the listener. Nothing is opened or changed.

    Examples:
        hookgate --config new.toml config check
        hookgate config check --strict
    """
    from hookgate.cli.commands.doctor import check_settings
    from hookgate.core.domain.errors import ConfigError

    state = state_of(ctx)
    findings = check_settings(state, strict=strict)
    if findings.problems and not state.json:
        raise ConfigError(list(findings.problems.values()))
    where = state.settings_name

    def render(console: Any) -> None:
        from rich.text import Text

        console.print(Text.assemble(("ok ", "bold green"), where), soft_wrap=True)
        for note in findings.notes:
            console.print(Text.assemble(("note ", "bold yellow"), str(note)), soft_wrap=True)
        count = len(findings.plugins)
        console.print(f"{count} plugins: {', '.join(findings.plugins)}", style="dim")

    data = {
        "ok": not findings.problems,
        "file": state.source.file,
        "problems": [asdict(one) for one in findings.problems.values()],
        "notes": [asdict(one) for one in findings.notes],
        "plugins": list(findings.plugins),
    }
    state.show(data, render)
    if findings.problems:
        raise typer.Exit(2)


@app.command()
def schema(ctx: typer.Context, as_json: JsonOption = False) -> None:
    """Print a JSON Schema of the settings file, plugins included, for editors.

    Example:
        hookgate config schema > ~/.hookgate/config.schema.json
    """
    from hookgate.core.settings.schema import Settings
    from hookgate.kit.rendering import print_json

    state = state_of(ctx)
    made = Settings.model_json_schema()
    plugins = made["properties"]["plugin"]
    gateway = state.make_gateway(state.settings)
    plugins["properties"] = {}
    for info in gateway.plugins.infos():
        model = getattr(gateway.plugins.get(info.name), "Settings", None)
        if model is not None:
            described = model.model_json_schema(ref_template=f"#/$defs/{info.name}.{{model}}")
            for name, part in described.pop("$defs", {}).items():
                made["$defs"][f"{info.name}.{name}"] = part
            plugins["properties"][info.name] = described
    print_json({"$schema": "https://json-schema.org/draft/2020-12/schema", **made})
