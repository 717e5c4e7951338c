"""``hookgate token``: access tokens for clients beyond this machine."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Annotated

import typer

from hookgate.cli.group import CommandGroup
from hookgate.cli.state import JsonOption, State, state_of

if TYPE_CHECKING:
    from rich.console import Console

app = typer.Typer(
    cls=CommandGroup, no_args_is_help=True, help="Access tokens: make, list and revoke them."
)

SCOPES = ("chat", "approve", "operate", "read")


@app.command()
def new(
    ctx: typer.Context,
    name: Annotated[
        str, typer.Argument(help="The token's name in the settings, such as `laptop`.")
    ],
    scope: Annotated[
        list[str] | None,
        typer.Option(help=f"What it allows: {', '.join(SCOPES)}. Chat and read by default."),
    ] = None,
    keep: Annotated[
        bool,
        typer.Option("--keep", help="Also keep it in a key file, for the commands of this user."),
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Make an access token. It is shown once; the settings hold its digest alone.

    Examples:
        hookgate token new laptop
        hookgate token new ops --scope operate --scope read --keep
    """
    from hookgate.core.gateway.access.tokens import new_token

    scopes = tuple(dict.fromkeys(scope or ("chat", "read")))
    if odd := [one for one in scopes if one not in SCOPES]:
        raise typer.BadParameter(
            f"found {', '.join(odd)}, expected some of {', '.join(SCOPES)}", param_hint="--scope"
        )
    state = state_of(ctx)
    token, digest = new_token()
    key = name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else f'"{name}"'
    if not name or '"' in name or "\\" in name or not name.isprintable():
        raise typer.BadParameter("expected a name, without quotes and backslashes")
    listed = ", ".join(f'"{one}"' for one in scopes)
    toml = f'[gateway.tokens.{key}]\ndigest = "{digest}"\nscopes = [{listed}]\n'
    kept = _keep(state, token) if keep else ""

    def render(console: Console) -> None:
        console.print("The token. It is not stored, and not shown again:", style="bold")
        console.print(f"\n  {token}\n", markup=False, soft_wrap=True, style="bold green")
        where = state.source.path or state.settings.home / "config.toml"
        console.print(
            f"Put this into {where}, and run `hookgate reload` where a gateway runs:",
            style="bold",
            soft_wrap=True,
        )
        console.print(f"\n{toml}", markup=False, soft_wrap=True)
        told = "Clients send `Authorization: Bearer TOKEN`, commands elsewhere HOOKGATE_TOKEN."
        if kept:
            told = f"Kept in {kept}: commands show it where they do not come by loopback."
        console.print(f"{told} Your own commands on this machine need none.", style="dim")

    data = {"name": name, "token": token, "digest": digest, "scopes": list(scopes), "toml": toml}
    state.show(data, render)


def _keep(state: State, token: str) -> str:
    """Write the token into the key file where `State.token` looks; return its path."""
    folder = state.settings.home / "keys"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    path = folder / "hookgate_token"
    fresh = folder / f".hookgate_token.{os.getpid()}"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
    with open(os.open(fresh, flags, 0o600), "w", encoding="utf-8") as file:
        file.write(f"{token}\n")
    fresh.replace(path)
    return str(path)
