"""A program on a terminal of its own, typed at and read from."""

from __future__ import annotations

import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from functools import partial
from types import TracebackType
from typing import Self

ESCAPES = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]|\x1b[=>]|\r")
LIMIT = 30.0


class Terminal:
    """Runs ``hookgate WORDS`` on a pseudo-terminal.

    Args:
        environ: The environment.
        words: The words of the command.
        deaf: Whether Ctrl-C is ignored from the beginning, as in a background job of a shell.
    """

    def __init__(self, environ: dict[str, str], *words: str, deaf: bool = False) -> None:
        main, other = pty.openpty()
        self._main = main
        self._process = subprocess.Popen(
            [sys.executable, "-m", "hookgate", *words],
            stdin=other,
            stdout=other,
            stderr=other,
            env={**environ, "TERM": "xterm"},
            start_new_session=True,
            preexec_fn=partial(_take_terminal, signal.SIG_IGN if deaf else signal.SIG_DFL),
        )
        os.close(other)
        self.text = ""
        self._read = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()
        os.close(self._main)

    def type(self, line: str) -> None:
        """Type a line."""
        os.write(self._main, f"{line}\n".encode())

    def interrupt(self) -> None:
        """Press Ctrl-C."""
        os.write(self._main, b"\x03")

    def interrupt_until(self, wanted: str) -> None:
        """Press Ctrl-C until `wanted` is shown, as a person would.

        readline misses one that comes in the moment between its prompt and its waiting.
        """
        deadline = time.monotonic() + LIMIT
        while wanted not in self.text[self._read :]:
            assert time.monotonic() < deadline, f"no {wanted!r} in {self.text[self._read :]!r}"
            self.interrupt()
            self._more(1.0)

    def end(self) -> None:
        """Press Ctrl-D."""
        os.write(self._main, b"\x04")

    def expect(self, wanted: str) -> str:
        """Wait until `wanted` is shown behind what was expected before; return what came."""
        deadline = time.monotonic() + LIMIT
        while wanted not in self.text[self._read :]:
            left = deadline - time.monotonic()
            assert left > 0, f"no {wanted!r} in {self.text[self._read :]!r}"
            if not self._more(left):
                raise AssertionError(f"it ended without {wanted!r}: {self.text!r}")
        end = self.text.index(wanted, self._read) + len(wanted)
        came, self._read = self.text[self._read : end], end
        return came

    def exit_code(self, *, pressing: bool = False) -> int:
        """Read to the end and return the exit code.

        Args:
            pressing: Press Ctrl-C until it ends; see `interrupt_until`.
        """
        deadline = time.monotonic() + LIMIT
        while self._more(0.5 if pressing else max(deadline - time.monotonic(), 0.01)):
            assert time.monotonic() < deadline, f"it does not end: {self.text!r}"
            if pressing:
                self.interrupt()
        return self._process.wait(LIMIT)

    def _more(self, seconds: float) -> bool:
        ready, _, _ = select.select([self._main], [], [], seconds)
        if not ready:
            return True
        try:
            data = os.read(self._main, 65_536)
        except OSError:
            return False  # The other end is closed: Linux says so with EIO.
        self.text += ESCAPES.sub("", data.decode(errors="replace"))
        return bool(data)


def _take_terminal(interrupts: signal.Handlers) -> None:
    """Make standard input the controlling terminal, so that Ctrl-C is a signal."""
    import fcntl
    import termios

    signal.signal(signal.SIGINT, interrupts)
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
