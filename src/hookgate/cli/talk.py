"""A conversation on a terminal: a prompt here, the gateway's client on a thread beside it."""

from __future__ import annotations

import asyncio
import math
import queue
import re
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import timedelta
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from rich.cells import cell_len
from rich.padding import Padding
from rich.text import Text

from hookgate.core.domain.errors import HookgateError, counted
from hookgate.kit.rendering import clean, one_line, short

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Future

    from rich.console import Console

    from hookgate.cli.client.local import Client, LoopThread
    from hookgate.cli.state import State

_PARTS = re.compile(r"\n|[^\S\n]+|\S+")

FENCE = "```"
"""Between two of these stands code, whose lines stay as they are."""


class WordWrap:
    """Writes pieces of a text, and begins a new line where a word would be cut in two.

    A word is written once its end has come, or `flush` is called; whitespace where a line is
    broken is left out. What is longer than a line is left to the terminal.

    Args:
        file: Where it goes.
        width: Returns the columns of the terminal, which may change.
    """

    def __init__(self, file: IO[str], width: Callable[[], int]) -> None:
        self._file = file
        self._width = width
        self._column = 0
        self._space = ""
        self._word = ""
        self._code = False

    def write(self, text: str) -> None:
        """Take a piece; what of it can be shown is shown at once."""
        for part in _PARTS.findall(text):
            if part == "\n":
                self._end_word()
                self._put("\n")
                self._column, self._space = 0, ""
            elif part.isspace():
                self._end_word()
                self._space += part
            else:
                self._word += part
        self._file.flush()

    def flush(self) -> None:
        """Show what is held back."""
        self._end_word()
        self._put(self._space)
        self._space = ""
        self._file.flush()

    def reset(self) -> None:
        """Begin anew, at the beginning of a line."""
        self.flush()
        self._column, self._code = 0, False

    def _end_word(self) -> None:
        word, self._word = self._word, ""
        if not word:
            return
        if word.startswith(FENCE):
            self._code = not self._code
        needed = self._column + cell_len(self._space) + cell_len(word)
        if needed > self._width() and self._column and not self._code:
            self._put("\n")
            self._column, self._space = 0, ""
        self._put(self._space + word)
        self._space = ""

    def _put(self, text: str) -> None:
        self._file.write(text)
        self._column += cell_len(text.replace("\n", ""))


# -- what is told ----------------------------------------------------------------


class Narrator:
    """Prints the events of turns as they come.

    Args:
        out: Takes the answers.
        err: Takes everything else, so that a pipe gets the answers alone.
        silent: Whether everything else is left out.
        told: What was said before, and is not said in full again.
    """

    def __init__(
        self, out: Console, err: Console, *, silent: bool = False, told: Collection[str] = ()
    ) -> None:
        self._out = out
        self._err = err
        self._silent = silent
        self._open = False
        self._before = told
        self._told: set[str] = set()
        # In a pipe, and in a file, a line is as long as it is.
        self._wrap = WordWrap(out.file, lambda: out.width) if out.is_terminal else None

    def tell(self, kind: str, data: Mapping[str, Any]) -> None:
        """Print one event; those of unknown types are passed over."""
        match kind:
            case "text":
                self._write(data["text"])
            case "done":
                self._close_line()
                self._told.clear()
            case "error" if data.get("code") == "cancelled":
                self._line(Text("cancelled", style="yellow"))
            case "error":
                said = str(data["message"])
                said = "no model answered, as said above" if self._knows(said) else clean(said)
                self._line(Text.assemble(("error: ", "bold red"), said))
                if data.get("action"):
                    self._line(Text(f"  {clean(str(data['action']))}", style="dim"))
                if data.get("retry_after"):
                    wait = timedelta(seconds=math.ceil(data["retry_after"]))
                    self._line(Text(f"  it may work again in {wait}", style="dim"))
            case _ if not self._silent:
                self._tell_more(kind, data)

    def _tell_more(self, kind: str, data: Mapping[str, Any]) -> None:
        match kind:
            case "reasoning":
                self._line(Text(clean(data["text"]), style="dim italic"))
            case "tool_use":
                self._line(
                    Text.assemble(
                        ("  ▸ " if "within" in data else "▸ ", "green"),
                        (one_line(data["name"]), "bold"), " ",
                        (short(data["input"], 160), "dim"),
                    )
                )  # fmt: skip
            case "tool_result":
                style = "red" if data["is_error"] else "dim"
                space = "    " if "within" in data else "  "
                self._line(Text(f"{space}{short(data['content'], 200)}", style=style))
            case "queued":
                self._line(
                    Text(f"waiting behind {counted(data['before'], 'message')}", style="dim")
                )
            case "warning":
                told = f"{data['message']}: {data['action']}"
                self._line(Text(one_line(told), style="yellow"))
            case "hook_failed":
                told = f"{data['plugin']} was skipped: its hook {data['hook']} failed: "
                self._line(Text(one_line(told + data["message"]), style="dim"))
            case "attempt_failed":
                why = data["error"]
                told = f"{data['model']} failed"
                told += ", as said above" if self._knows(why) else f": {why}"
                self._told.add(why)
                self._line(Text(one_line(told), style="yellow"))
            case "approval" if data.get("state") != "pending":
                self._line(Text(f"  {clean(data['tool'])}: {data['state']}", style="yellow"))

    def _knows(self, sentence: str) -> bool:
        return sentence in self._told or sentence in self._before

    def _write(self, text: str) -> None:
        # Written as it comes: rich would wrap each piece by itself.
        if self._wrap is not None:
            self._wrap.write(clean(text))
        else:
            self._out.file.write(clean(text))
            self._out.file.flush()
        self._open = not text.endswith("\n")

    def _line(self, text: Text) -> None:
        self._close_line()
        self._err.print(text, soft_wrap=True)

    def _close_line(self) -> None:
        if self._wrap is not None:
            self._wrap.reset()
        if self._open:
            self._out.file.write("\n")
            self._out.file.flush()
        self._open = False


def print_question(console: Console, data: Mapping[str, Any]) -> None:
    """Print a tool call that waits for approval, every byte of it."""
    color = {"info": "blue", "critical": "red"}.get(data["severity"], "yellow")
    console.print(
        Text.assemble(("? ", f"bold {color}"), (one_line(data["title"]), "bold")), soft_wrap=True
    )
    if data["description"]:
        console.print(Padding(Text(clean(data["description"])), (0, 0, 0, 2)))
    flags = ", ".join(name.replace("_", " ") for name, value in data["flags"].items() if value)
    console.print(
        Text.assemble("  tool ", (one_line(data["tool"]), "bold"), (f" of {data['plugin']}", "dim"))
    )
    if flags:
        console.print(Text(f"  {flags}", style=color))
    console.print(Padding(Text(data["arguments_text"], style="cyan"), (0, 0, 0, 2)))
    if family := data.get("family"):
        alike = ", ".join(f"{name} {text}" for name, text in family.items())
        console.print(Text(f"  family: {one_line(alike)}"), soft_wrap=True)


# -- talk ------------------------------------------------------------------------

# The terminal waits for a line on the main thread, where Ctrl-C arrives. The connection, or the
# gateway itself, lives on the event loop of another thread, so that it goes on while nobody
# types.

HISTORY_LINES = 1000

COMMANDS = ("/help", "/peer", "/history", "/status", "/cancel", "/quit")
"""What can be typed instead of a message."""

_COMMAND = re.compile(r"/[a-z]+")
"""A command, or what was meant to be one; a path such as ``/etc/hosts`` is a message."""

HELP = """\
/help      this
/peer NAME go on as somebody else, in another session
/history   show the last turns of this session
/status    say how the gateway is
/quit      leave; Ctrl-D does, too
\\          at the end of a line: the message goes on in the next one
//word     say /word to the agent
Ctrl-C     cancel the answer that is coming"""


class Talk:
    """One conversation on a terminal.

    Args:
        state: This run of the command line.
        address: Who speaks, as ``chat.send`` takes it.
    """

    def __init__(self, state: State, address: dict[str, Any]) -> None:
        self._state = state
        self._address = address
        self._narrator = Narrator(state.out, state.err, told=state.told)

    def run(self) -> int:
        """Talk until the user leaves; return the exit code."""
        # Read before anything starts, so that what is wrong with it is told at once.
        home = self._state.settings.home
        loop = self._state.loop
        client = loop.run(self._state.client())
        with _line_history(home / "chat_history"):
            self._greet(client)
            return self._converse(loop, client)

    def _greet(self, client: Client) -> None:
        show = self._state.err.print
        show(Text.assemble(("hookgate", "bold"), f" {client.where}, as {self._address['peer']}"))
        show(Text("/help lists commands, /quit leaves.", style="dim"))

    def _converse(self, loop: LoopThread, client: Client) -> int:
        interrupted = False
        while True:
            try:
                line = _read_message()
            except EOFError:
                self._state.err.print()
                return 0
            except KeyboardInterrupt:
                if interrupted:
                    return 130
                interrupted = True
                self._state.err.print("\nCtrl-C again, /quit or Ctrl-D leaves.", style="dim")
                continue
            interrupted = False
            if line in ("/quit", "/exit", "/q"):
                return 0
            try:
                self._answer(loop, client, line)
            except KeyboardInterrupt:
                return 130
            except HookgateError as error:
                self._narrator.tell(
                    "error", {"message": str(error), "action": getattr(error, "action", "")}
                )

    def _answer(self, loop: LoopThread, client: Client, line: str) -> None:
        command, _, rest = line.partition(" ")
        match command:
            case "":
                return
            case "/help":
                self._state.err.print(HELP, markup=False)
            case "/peer" if rest.strip():
                self._address = {**self._address, "peer": rest.strip()}
                self._state.err.print(f"speaking as {rest.strip()}", style="dim", markup=False)
            case "/history":
                self._show_history(loop, client)
            case "/status":
                from hookgate.kit.rendering import print_result

                print_result(self._state.err, loop.run(client.call("status")))
            case "/cancel":
                self._state.err.print("no answer is coming; Ctrl-C cancels one", style="dim")
            case "/peer":
                self._state.err.print("expected a name: /peer NAME", style="yellow")
            case _ if _COMMAND.fullmatch(command):
                known = ", ".join(COMMANDS)
                self._state.err.print(
                    f"{command} is no command. Known: {known}. To say it to the agent: /{line}",
                    style="yellow",
                    markup=False,
                    soft_wrap=True,
                )
            case _:
                said = line[1:] if line.startswith("//") else line
                self._say(loop, client, said)

    def _show_history(self, loop: LoopThread, client: Client) -> None:
        from hookgate.kit.rendering import message, print_shown

        rows = loop.run(client.call("sessions.list", {"limit": 1000}))["sessions"]
        wanted = tuple(self._address[key] for key in ("channel", "account", "peer"))
        for row in rows:
            if _parts(row["session"])[1:] == wanted:
                params = {"session": row["session"], "turns": 5}
                for stored in loop.run(client.call("sessions.show", params))["messages"]:
                    print_shown(self._state.err, message(stored))
                return
        self._state.err.print("nothing was said in this session yet", style="dim")

    def _say(self, loop: LoopThread, client: Client, line: str) -> None:
        """Send a message and show the answer.

        Ctrl-C cancels it and waits for its end; a second one leaves at once.
        """
        events: queue.SimpleQueue[tuple[str, Mapping[str, Any]] | None] = queue.SimpleQueue()
        cancel = asyncio.Event()
        turn: Future[None] | None = None
        interrupted = False
        while True:
            try:
                if turn is None:
                    params = {"content": line, **self._address}
                    turn = loop.start(_turn(client, params, events, cancel))
                    turn.add_done_callback(lambda _: events.put(None))
                event = events.get()
                if event is None:
                    break
                self._show(loop, client, *event)
            except KeyboardInterrupt:
                if interrupted or turn is None:
                    raise
                interrupted = True
                self._state.err.print("\ncancelling", style="yellow")
                loop.start(_set(cancel))
        turn.result()

    def _show(self, loop: LoopThread, client: Client, kind: str, data: Mapping[str, Any]) -> None:
        self._narrator.tell(kind, data)
        if kind == "approval" and data.get("state") == "pending":
            answer = {"id": data["id"], "digest": data["digest"], **self._decide(data)}
            with suppress(HookgateError):  # It ran out, or somebody else was faster: it is told.
                loop.run(client.call("approvals.resolve", answer))

    def _decide(self, data: Mapping[str, Any]) -> Mapping[str, str]:
        print_question(self._state.err, data)
        always = "allow-always" in data.get("choices", ())
        more = "or always with these arguments? [a] " if always else ""
        try:
            said = input(f"  allow it once? [y/N] {more}or why not: ").strip()
        except EOFError:
            said = ""
        word = said.lower()
        if always and word in ("a", "always"):
            return {"decision": "allow-always"}
        if word in ("y", "yes"):
            return {"decision": "allow-once"}
        reason = "" if word in ("n", "no", "a", "always") else said[:500]
        return {"decision": "deny", "reason": reason}


def _read_message() -> str:
    """Read a message; a line that ends in a backslash goes on in the next one."""
    text = input("\n> ")
    while text.endswith("\\"):
        text = f"{text[:-1]}\n{input('. ')}"
    return text.strip()


async def _turn(
    client: Client,
    params: Mapping[str, Any],
    events: queue.SimpleQueue[tuple[str, Mapping[str, Any]] | None],
    cancel: asyncio.Event,
) -> None:
    from hookgate.cli.trace import failing_hooks

    async def hear(kind: str, data: Mapping[str, Any]) -> None:
        events.put((kind, data))

    async with failing_hooks(client, hear), client.stream("chat.send", params) as stream:
        ending = asyncio.create_task(cancel.wait())
        ending.add_done_callback(lambda task: task.cancelled() or stream.cancel())
        try:
            async for event in stream:
                events.put(event)
            await stream.result()
        finally:
            ending.cancel()


async def _set(event: asyncio.Event) -> None:
    event.set()


@contextmanager
def _line_history(path: Path) -> Iterator[None]:
    """Edit lines with their history, which is kept for this user alone."""
    try:
        import readline
    except ImportError:
        # Some builds of Python have none: lines are then read without history.
        yield
        return
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    path.touch(mode=0o600)
    with suppress(OSError):
        readline.read_history_file(path)
    readline.set_history_length(HISTORY_LINES)
    try:
        yield
    finally:
        with suppress(OSError):
            readline.write_history_file(path)
        path.chmod(0o600)


def _parts(session: str) -> tuple[str, ...]:
    from hookgate.core.domain.turn import SessionKey

    key = SessionKey.parse(session)
    return key.agent, key.channel, key.account, key.peer
