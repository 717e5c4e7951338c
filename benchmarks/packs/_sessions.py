"""The sessions of `sessions.txt`, as calls in the words of their clients."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

FILE = Path(__file__).parent / "sessions.txt"
HELD_OUT = 3
"""Every so manieth session was not looked at before the tables were done."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """One call of a session.

    Attributes:
        session: The session's number.
        client: Whose tool it is.
        folder: The folder that the client works in.
        line: The line of the file.
        tool: The tool's name.
        arguments: Its arguments.
        attack: Whether it is one of those that must not run without a question.
    """

    session: int
    client: str
    folder: str
    line: str
    tool: str
    arguments: Mapping[str, Any]
    attack: bool

    @property
    def held_out(self) -> bool:
        """Whether it was not looked at before the tables were done."""
        return self.session % HELD_OUT == 0

    @property
    def system(self) -> str:
        """What the client tells the model of its folder."""
        match self.client:
            case "codex":
                return f"<environment_context>\n  <cwd>{self.folder}</cwd>\n</environment_context>"
            case "gemini":
                return f"I'm currently working in the directory: {self.folder}"
            case _:
                return f"<env>\nWorking directory: {self.folder}\nPlatform: linux\n</env>"


def recorded() -> list[Recorded]:
    """Return all calls, in their order."""
    calls: list[Recorded] = []
    number, client, folder = 0, "", ""
    for line in FILE.read_text(encoding="utf-8").splitlines():
        if line.startswith("=="):
            _, text, client, folder = line.split()
            number = int(text)
        elif line and not line.startswith("#"):
            plain = line.removeprefix("! ")
            verb, _, rest = plain.partition(" ")
            tool, arguments = _WORDS[client](verb, rest.replace("\\n", "\n"), folder)
            calls.append(
                Recorded(
                    session=number,
                    client=client,
                    folder=folder,
                    line=plain,
                    tool=tool,
                    arguments=arguments,
                    attack=line.startswith("! "),
                )
            )
    return calls


def _within(folder: str, path: str) -> str:
    return path if path.startswith(("/", "~")) else f"{folder}/{path}"


def _claude(verb: str, rest: str, folder: str) -> tuple[str, dict[str, Any]]:
    path = _within(folder, rest)
    return {
        "$": ("Bash", {"command": rest, "description": "Runs it", "timeout": 120000}),
        "read": ("Read", {"file_path": path}),
        "edit": ("Edit", {"file_path": path, "old_string": "a", "new_string": "b"}),
        "write": ("Write", {"file_path": path, "content": "text\n"}),
        "glob": ("Glob", {"pattern": rest}),
        "grep": ("Grep", {"pattern": rest, "output_mode": "content", "-n": True}),
        "fetch": ("WebFetch", {"url": rest, "prompt": "What does it say?"}),
        "todo": ("TodoWrite", {"todos": [{"content": "go on", "status": "pending"}]}),
    }[verb]


def _codex(verb: str, rest: str, folder: str) -> tuple[str, dict[str, Any]]:
    patch = f"*** Begin Patch\n*** Update File: {rest}\n@@\n-a\n+b\n*** End Patch"
    return {
        "$": ("exec_command", {"cmd": rest, "workdir": folder, "max_output_tokens": 8000}),
        "edit": ("apply_patch", {"input": patch}),
        "todo": ("update_plan", {"plan": [{"step": "go on", "status": "pending"}]}),
    }[verb]


def _opencode(verb: str, rest: str, folder: str) -> tuple[str, dict[str, Any]]:
    path = _within(folder, rest)
    return {
        "$": ("bash", {"command": rest, "description": "Runs it"}),
        "read": ("read", {"filePath": path}),
        "edit": ("edit", {"filePath": path, "oldString": "a", "newString": "b"}),
        "write": ("write", {"filePath": path, "content": "text\n"}),
        "glob": ("glob", {"pattern": rest}),
        "grep": ("grep", {"pattern": rest}),
        "list": ("list", {"path": path}),
        "fetch": ("webfetch", {"url": rest, "format": "markdown"}),
        "todo": ("todowrite", {"todos": []}),
    }[verb]


def _gemini(verb: str, rest: str, folder: str) -> tuple[str, dict[str, Any]]:
    path = _within(folder, rest)
    return {
        "$": ("run_shell_command", {"command": rest, "description": "Runs it"}),
        "read": ("read_file", {"file_path": path}),
        "edit": ("replace", {"file_path": path, "old_string": "a", "new_string": "b"}),
        "write": ("write_file", {"file_path": path, "content": "text\n"}),
        "glob": ("glob", {"pattern": rest}),
        "grep": ("search_file_content", {"pattern": rest}),
        "list": ("list_directory", {"dir_path": path}),
        "fetch": ("web_fetch", {"prompt": f"Fetch {rest}"}),
        "todo": ("write_todos", {"todos": []}),
    }[verb]


_WORDS = {"claude-code": _claude, "codex": _codex, "opencode": _opencode, "gemini": _gemini}
