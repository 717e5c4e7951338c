"""``hookgate chat``: a conversation on the terminal, or one message."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Annotated, Any

import typer

from hookgate.cli.commands.turn import address_params, run_once
from hookgate.cli.state import JsonOption, State, state_of


def chat(
    ctx: typer.Context,
    text: Annotated[
        str, typer.Argument(help="One message; `-` reads it from standard input.", metavar="TEXT")
    ] = "",
    peer: Annotated[str, typer.Option(help="Who speaks. Each has a session.")] = "main",
    channel: Annotated[str, typer.Option(help="The channel.")] = "cli",
    account: Annotated[str, typer.Option(help="The account on it.")] = "local",
    guild: Annotated[str | None, typer.Option(help="The guild, for bindings.")] = None,
    team: Annotated[str | None, typer.Option(help="The team, for bindings.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Talk to an agent: on the terminal, or with one message.

    It is the running gateway that answers; where none runs, one is started in this process.
    On the terminal, Ctrl-C cancels the turn, /help lists commands, /quit or Ctrl-D leaves.

    Examples:
        hookgate chat
        hookgate chat "what is 17*23?"
        git diff | hookgate chat - --peer review
    """
    state = state_of(ctx)
    address = address_params(channel, account, peer, guild, team)
    if text == "-" or (not text and not sys.stdin.isatty()):
        text = sys.stdin.read().strip()
        if not text:
            raise typer.BadParameter("found nothing on standard input, expected a message")
    if text:
        _say_once(state, {"content": text, **address})
    else:
        from hookgate.cli.terminal.talk import Talk

        raise typer.Exit(Talk(state, address).run())


def _say_once(state: State, params: Mapping[str, Any]) -> None:
    trace = state.run(run_once(state, params, silent=state.json))
    if state.json:
        state.show(
            {
                "turn": trace.turn,
                "session": trace.session,
                "ending": trace.ending,
                "text": trace.text,
                "usage": trace.usage,
                "error": trace.error,
            }
        )
    if trace.ending not in ("done", "awaiting_client"):
        raise typer.Exit(1)
