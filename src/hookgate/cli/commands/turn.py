"""``hookgate turn``: one message, and what every hook made of it."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hookgate.cli.state import JsonOption, State, state_of

if TYPE_CHECKING:
    from hookgate.cli.terminal.trace import Trace


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
    as_json: JsonOption = False,
) -> None:
    """Run one turn. With --explain, see each hook: plugin, time, what it decided, tokens.

    Exit code 1 where the turn does not end as it should.

    Examples:
        hookgate turn "what is 17*23, and what time is it?" --explain
        hookgate -p no:policy turn "fetch https://example.com" --explain --json
    """
    state = state_of(ctx)
    peer = peer or f"turn-{secrets.token_hex(4)}"
    params = {"content": text, **address_params(channel, account, peer)}
    trace = state.run(run_once(state, params, spans=explain, silent=state.json))

    def render(console: Any) -> None:
        if explain:
            from hookgate.cli.terminal.waterfall import print_waterfall

            console.print()
            print_waterfall(console, trace, quiet=quiet)

    state.show(trace.to_json(), render)
    if trace.ending not in ("done", "awaiting_client"):
        raise typer.Exit(1)


def address_params(
    channel: str, account: str, peer: str, guild: str | None = None, team: str | None = None
) -> dict[str, Any]:
    """Return an address as ``chat.send`` takes it."""
    address = {"channel": channel, "account": account, "peer": peer, "guild": guild, "team": team}
    return {name: value for name, value in address.items() if value is not None}


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
    from hookgate.cli.terminal.conversation import Narrator
    from hookgate.cli.terminal.trace import traced

    client = await state.client()
    narrator = Narrator(state.out, state.err)

    async def hear(kind: str, data: Mapping[str, Any]) -> None:
        if not silent:
            narrator.tell(kind, data)
        if kind == "approval" and data.get("state") == "pending":
            # Nobody is asked here: a question would wait for its whole limit.
            answer = {"id": data["id"], "digest": data["digest"], "decision": "deny"}
            await client.call("approvals.resolve", answer)
            if not silent:
                state.err.print(
                    f"  {data['title']} Denied: only `hookgate chat` can ask you.",
                    style="yellow",
                    markup=False,
                )

    return await traced(client, params, spans=spans, hear=hear)
