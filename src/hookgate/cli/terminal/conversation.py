"""A conversation on a terminal: answers as they come, tools, questions, stored messages."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from rich.padding import Padding
from rich.text import Text

from hookgate.core.domain.errors import counted
from hookgate.kit.rendering import clean, one_line, short

if TYPE_CHECKING:
    from rich.console import Console


class Narrator:
    """Prints the events of turns as they come.

    Args:
        out: Takes the answers.
        err: Takes everything else, so that a pipe gets the answers alone.
        silent: Whether everything else is left out.
    """

    def __init__(self, out: Console, err: Console, *, silent: bool = False) -> None:
        self._out = out
        self._err = err
        self._silent = silent
        self._open = False

    def tell(self, kind: str, data: Mapping[str, Any]) -> None:
        """Print one event; those of unknown types are passed over."""
        match kind:
            case "text":
                self._write(data["text"])
            case "done":
                self._close_line()
            case "error" if data.get("code") == "cancelled":
                self._line(Text("cancelled", style="yellow"))
            case "error":
                self._line(Text.assemble(("error: ", "bold red"), clean(str(data["message"]))))
                if data.get("action"):
                    self._line(Text(f"  {clean(str(data['action']))}", style="dim"))
            case _ if not self._silent:
                self._tell_more(kind, data)

    def _tell_more(self, kind: str, data: Mapping[str, Any]) -> None:
        match kind:
            case "reasoning":
                self._line(Text(clean(data["text"]), style="dim italic"))
            case "tool_use":
                self._line(
                    Text.assemble(
                        ("▸ ", "green"), (one_line(data["name"]), "bold"), " ",
                        (short(data["input"], 160), "dim"),
                    )
                )  # fmt: skip
            case "tool_result":
                style = "red" if data["is_error"] else "dim"
                self._line(Text(f"  {short(data['content'], 200)}", style=style))
            case "queued":
                self._line(
                    Text(f"waiting behind {counted(data['before'], 'message')}", style="dim")
                )
            case "warning":
                told = f"{data['message']}: {data['action']}"
                self._line(Text(one_line(told), style="yellow"))
            case "attempt_failed":
                told = f"{data['model']} failed: {data['error']}"
                self._line(Text(one_line(told), style="yellow"))
            case "approval" if data.get("state") != "pending":
                self._line(Text(f"  {clean(data['tool'])}: {data['state']}", style="yellow"))

    def _write(self, text: str) -> None:
        # Written as it comes: rich would wrap each piece by itself.
        self._out.file.write(clean(text))
        self._out.file.flush()
        self._open = not text.endswith("\n")

    def _line(self, text: Text) -> None:
        self._close_line()
        self._err.print(text, soft_wrap=True)

    def _close_line(self) -> None:
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
