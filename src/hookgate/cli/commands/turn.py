"""``hookgate chat`` and ``hookgate turn``: a conversation, or one message and all of it."""

from __future__ import annotations

import secrets
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hookgate.cli.state import JsonOption, State, state_of

if TYPE_CHECKING:
    from hookgate.cli.trace import Trace


STORE = "storage"
"""What is degraded where nothing that is said would be kept."""

Ephemeral = Annotated[
    bool,
    typer.Option("--ephemeral", help="Go on where the store cannot be used: nothing is kept."),
]
Chosen = Annotated[
    str | None, typer.Option("--agent", help="The agent, instead of the one that bindings choose.")
]


def check_kept(state: State, *, ephemeral: bool) -> None:
    """Refuse to talk where nothing of it would be kept, unless that is meant.

    Raises:
        AnsweredError: The store cannot be used.
    """
    from hookgate.cli.client.local import AnsweredError

    client = state.run(state.client())
    if STORE in client.degraded and not ephemeral:
        # It stands above where somebody looks, and need not be read twice.
        why = f": {client.degraded[STORE]}" if state.json else ", as said above"
        raise AnsweredError(
            f"nothing of this conversation would be kept: the store cannot be used{why}",
            {
                "code": "store_failed",
                "action": "mend that first; or talk all the same with `--ephemeral`",
            },
        )


def turn(
    ctx: typer.Context,
    text: Annotated[str, typer.Argument(help="The message.")],
    explain: Annotated[
        bool, typer.Option("--explain", help="Show the hook waterfall behind the answer.")
    ] = False,
    quiet: Annotated[
        bool, typer.Option("--quiet", help="Leave out hooks that had nothing to say.")
    ] = False,
    peer: Annotated[
        str, typer.Option(help="Who speaks; a session of its own where it is not given.")
    ] = "",
    channel: Annotated[str, typer.Option(help="The channel.")] = "cli",
    account: Annotated[str, typer.Option(help="The account on it.")] = "local",
    agent: Chosen = None,
    ephemeral: Ephemeral = False,
    as_json: JsonOption = False,
) -> None:
    """Run one turn. With --explain, see each hook: plugin, time, what it decided, tokens.

    Exit code 1 where the turn does not end as it should.

    Examples:
        hookgate turn "what is 17*23, and what time is it?" --explain
        hookgate -p no:policy turn "fetch https://example.com" --explain --json
    """
    state = state_of(ctx)
    check_kept(state, ephemeral=ephemeral)
    peer = peer or f"turn-{secrets.token_hex(4)}"
    params = {"content": text, **address_params(channel, account, peer, agent=agent)}
    trace = state.run(run_once(state, params, spans=explain, silent=state.json))

    def render(console: Any) -> None:
        if explain:
            from hookgate.cli.trace import print_waterfall

            console.print()
            print_waterfall(console, trace, quiet=quiet)

    failed = trace.ending not in ("done", "awaiting_client")
    state.show(trace.to_json(), render, failed=failed)


def address_params(channel: str, account: str, peer: str, **more: str | None) -> dict[str, Any]:
    """Return an address, and what else there is, as ``chat.send`` takes it."""
    given = {"channel": channel, "account": account, "peer": peer, **more}
    return {name: value for name, value in given.items() if value is not None}


async def run_once(
    state: State, params: Mapping[str, Any], *, spans: bool = False, silent: bool = False
) -> Trace:
    """Send one message, print what comes, and return the trace.

    Args:
        state: This run.
        params: What ``chat.send`` takes.
        spans: Whether hooks are recorded.
        silent: Whether nothing is printed.
    """
    from hookgate.cli.talk import Narrator
    from hookgate.cli.trace import traced

    client = await state.client()
    narrator = Narrator(state.out, state.err, told=state.told)

    async def hear(kind: str, data: Mapping[str, Any]) -> None:
        if not silent:
            narrator.tell(kind, data)
        if kind == "approval" and data.get("state") == "pending":
            # Nobody is asked here: a question would wait for its whole limit.
            answer = {"id": data["id"], "digest": data["digest"], "decision": "deny"}
            await client.call("approvals.resolve", answer)
            if not silent:
                state.err.print(
                    f"  {data['title']} Denied: you are asked in a conversation alone, which "
                    "`hookgate chat` without a message begins.",
                    style="yellow",
                    markup=False,
                )

    return await traced(client, params, spans=spans, hear=hear)


# -- ``hookgate chat``: a conversation on the terminal, or one message -----------


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
    agent: Chosen = None,
    ephemeral: Ephemeral = False,
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
    address = address_params(channel, account, peer, guild=guild, team=team, agent=agent)
    if text == "-" or (not text and not sys.stdin.isatty()):
        text = sys.stdin.read().strip()
        if not text:
            raise typer.BadParameter("found nothing on standard input, expected a message")
    check_kept(state, ephemeral=ephemeral)
    if text:
        _say_once(state, {"content": text, **address})
    else:
        from hookgate.cli.talk import Talk

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
