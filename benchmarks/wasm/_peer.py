"""Times calls of Extism; the interpreter that has it runs this. It imports nothing of hookgate.

For each line on standard input, which is a number, it makes as many calls of ``echo`` in the module
named by its argument, each with a plugin of its own from one compiled plugin, and prints the CPU
seconds that one takes.
"""

from __future__ import annotations

import base64
import importlib
import sys
import time
from pathlib import Path
from typing import Any

REQUEST = b"x" * 256


def main(path: str) -> None:
    """Answer every number with the time of a call."""
    extism: Any = importlib.import_module("extism.extism")
    data = base64.b64encode(Path(path).read_bytes()).decode()
    compiled = extism.CompiledPlugin(
        {"wasm": [{"data": data}], "timeout_ms": 10_000, "memory": {"max_pages": 1024}},
        functions=[],
    )
    for line in sys.stdin:
        number = int(line)
        start = time.process_time()
        for _ in range(number):
            if extism.Plugin(compiled).call("echo", REQUEST) != REQUEST:
                raise SystemExit("extism answered something else")
        print((time.process_time() - start) / number, flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
