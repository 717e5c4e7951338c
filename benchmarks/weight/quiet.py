"""When a process does nothing: none of its threads runs, or waits for a processor or a disk."""

from __future__ import annotations

import contextlib
import re
import time
from pathlib import Path

CAN_TELL = Path("/proc/self/task").exists()
"""Whether this system tells which threads sleep: Linux does."""
PATIENCE = 60.0
LONGEST_NAP = 1.0
"""Nothing that a process was sent takes longer to wake it."""
NAPS = re.compile(rb"^voluntary_ctxt_switches:\s*(\d+)", re.MULTILINE)


def naps(pid: int) -> int:
    """Return how often the main thread of a process has gone to sleep."""
    found = NAPS.search(Path(f"/proc/{pid}/status").read_bytes())
    return int(found[1]) if found else 0


def wait_for_quiet(pid: int, *, after: int | None = None) -> None:
    """Wait until a process does nothing.

    Args:
        pid: The process.
        after: The `naps` that its main thread had taken before it was sent something: it has to
            have woken since. What it was sent comes late where the machine is busy.

    Raises:
        SystemExit: It did something for all of a minute.
    """
    began, quiet = time.monotonic(), 0
    while quiet < 2:
        passed = time.monotonic() - began
        woken = after is None or passed > LONGEST_NAP or naps(pid) > after
        quiet = quiet + 1 if woken and _sleeps(pid) else 0
        if passed > PATIENCE:
            raise SystemExit("the gateway that is weighed does not come to rest")
        time.sleep(0.0003)


def _sleeps(pid: int) -> bool:
    for thread in Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            if (thread / "stat").read_text().rpartition(")")[2].split()[0] != "S":
                return False
    return True
