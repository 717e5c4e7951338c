"""Times the hooks of CPEX, a framework of plugins; the interpreter that has it runs it.

It imports nothing of hookgate. For each line that it reads, a number of plugins, it prints the
CPU microseconds of one call of ``tool_pre_invoke``, each of whose plugins lets the call pass.
"""

from __future__ import annotations

import asyncio
import importlib
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

framework: Any = importlib.import_module("cpex.framework")

CALLS = 200


class Passing(framework.Plugin):  # type: ignore[misc]
    """Lets every call pass."""

    async def tool_pre_invoke(self, payload: Any, context: Any) -> Any:
        del payload, context
        return framework.ToolPreInvokeResult(continue_processing=True)


def config(count: int) -> str:
    plugins = "".join(
        f"- {{name: p{number}, kind: _cpex_peer.Passing, hooks: [tool_pre_invoke], "
        f"mode: sequential, priority: {number}}}\n"
        for number in range(count)
    )
    return f"plugin_dirs: []\nplugin_settings: {{plugin_timeout: 30}}\nplugins:\n{plugins}"


async def timed(count: int) -> float:
    framework.PluginManager.reset()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "plugins.yaml"
        path.write_text(config(count))
        manager = framework.PluginManager(str(path))
        await manager.initialize()
    payload = framework.ToolPreInvokePayload(name="now", args={"zone": "UTC"})
    try:
        if len(manager.config.plugins) != count:
            raise SystemExit(f"{len(manager.config.plugins)} plugins were loaded, not {count}")
        begun = 0.0
        for number in range(-CALLS // 4, CALLS):
            if number == 0:
                begun = time.process_time()
            context = framework.GlobalContext(request_id="1")
            result, _ = await manager.invoke_hook("tool_pre_invoke", payload, context)
            if not result.continue_processing:
                raise SystemExit("a plugin refused what it lets pass")
        return (time.process_time() - begun) / CALLS * 1e6
    finally:
        await manager.shutdown()


if __name__ == "__main__":
    for line in sys.stdin:
        print(asyncio.run(timed(int(line))), flush=True)
