"""``hookgate telemetry``: a dashboard and alerts, made of what the plugins here measure."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hookgate.kit.commands import CommandGroup, State, state_of

if TYPE_CHECKING:
    from hookgate import Instrument

app = typer.Typer(
    cls=CommandGroup,
    no_args_is_help=True,
    help="Figures: a dashboard for Grafana, and alerts for Prometheus.",
)

Out = Annotated[Path | None, typer.Option("--out", help="The file; without it, it is printed.")]


@app.command()
def dashboard(ctx: typer.Context, out: Out = None) -> None:
    """Write a dashboard for Grafana, with a panel for each figure that a plugin here keeps.

    Example:
        hookgate telemetry dashboard --out hookgate.json
    """
    import json

    from hookgate.builtin_plugins.telemetry import dashboards

    state = state_of(ctx)
    made = dashboards.dashboard(state.run(_instruments(state)))
    _write(state, json.dumps(made, indent=1) + "\n", out)


@app.command()
def alerts(ctx: typer.Context, out: Out = None) -> None:
    """Write rules for alerts as Prometheus reads them.

    Example:
        hookgate telemetry alerts --out /etc/prometheus/rules/hookgate.yaml
    """
    import yaml

    from hookgate.builtin_plugins.telemetry import dashboards

    state = state_of(ctx)
    made = dashboards.alerts(state.run(_instruments(state)))
    _write(state, yaml.safe_dump(made, sort_keys=False, width=1000), out)


async def _instruments(state: State) -> Sequence[Instrument]:
    """Return the figures of a gateway with these plugins, which is started apart for that."""
    with tempfile.TemporaryDirectory(prefix="hookgate-figures-") as home:
        plugin: dict[str, Any] = {
            **state.settings.plugin,
            "storage": {},
            "audit": {},
            "embedding": {"embedder": "none"},
        }
        log = state.settings.log.model_copy(update={"level": "error"})
        apart = {"home": Path(home), "plugin": plugin, "log": log}
        settings = state.settings.model_copy(update=apart)
        async with state.gateway(settings) as gateway:
            return tuple(gateway.host.instruments.view().values())


def _write(state: State, text: str, out: Path | None) -> None:
    if out is None:
        typer.echo(text, nl=False)
        return
    from hookgate.settings import write_whole

    write_whole(out.expanduser(), text.encode(), durable=False)
    state.err.print(f"wrote {out}", markup=False)


COMMANDS = {"telemetry": app}
"""What the command line finds here, by its words."""
