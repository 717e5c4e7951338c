"""What a help need not load is not loaded: it is most of what a command costs."""

from __future__ import annotations

import importlib.util
import subprocess
import sys

import pytest
from tests.cli.conftest import CommandLine
from tests.support.examples import sampled

from hookgate.builtin_plugins import BUILTIN

HEAVY = ("aiohttp", "httpx", "numpy", "sqlalchemy", "structlog", "hookgate.core.settings.schema")

OTHERS = ("init", "backup", "plugins", "config", "doctor")
"""Modules of commands that nobody asks for here."""

CODE = """
import sys
from hookgate.cli import main
sys.argv = ["hookgate", *sys.argv[1:]]
try:
    main()
except SystemExit as end:
    print("loaded:", [name for name in {heavy} if name in sys.modules])
    sys.exit(end.code)
"""


def _run(code: str, *words: str, home: CommandLine) -> subprocess.CompletedProcess[str]:
    # What is set in the environment is checked, which takes the models of the settings.
    environ = {
        name: value for name, value in home.environ.items() if not name.startswith("HOOKGATE_")
    }
    return subprocess.run(
        [sys.executable, "-c", code, *words],
        env={**environ, "HOOKGATE_HOME": str(home.home)},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize(
    "words", sampled(["policy explain", "", "policy", "approvals", "approvals list"])
)
def test_help_loads_nothing_of_a_gateway(words: str, hookgate: CommandLine) -> None:
    ran = _run(CODE.format(heavy=HEAVY), *words.split(), "--help", home=hookgate)

    assert ran.returncode == 0, ran.stderr
    assert "Usage:" in ran.stdout
    assert "loaded: []" in ran.stdout


@pytest.mark.parametrize("name", BUILTIN)
def test_what_every_help_loads_of_a_plugin_brings_commands(name: str) -> None:
    path = f"hookgate.builtin_plugins.{name}.commands"
    if importlib.util.find_spec(path):
        assert importlib.import_module(path).COMMANDS


def test_a_command_loads_no_other(hookgate: CommandLine) -> None:
    others = tuple(f"hookgate.cli.commands.{name}" for name in OTHERS)
    ran = _run(CODE.format(heavy=others), "serve", "--help", home=hookgate)

    assert ran.returncode == 0, ran.stderr
    assert "--take-over" in ran.stdout
    assert "loaded: []" in ran.stdout


AUTHORITIES = """
import ssl
from hookgate.cli.commands.serve import _import_aiohttp
_import_aiohttp()
from aiohttp.connector import _SSL_CONTEXT_VERIFIED as context
all = ssl.create_default_context()
assert context.verify_mode == ssl.CERT_REQUIRED and context.check_hostname
assert context.verify_flags == all.verify_flags and context.options == all.options
print("before:", context.cert_store_stats()["x509_ca"])
for _ in range(2):
    context.wrap_bio(ssl.MemoryBIO(), ssl.MemoryBIO(), server_hostname="example.org")
print("behind:", context.cert_store_stats() == all.cert_store_stats())
"""


def test_aiohttp_reads_the_certificate_authorities_when_it_connects(hookgate: CommandLine) -> None:
    ran = _run(AUTHORITIES, home=hookgate)

    assert ran.stdout == "before: 0\nbehind: True\n", ran.stderr


READY = """
import asyncio, sys
from hookgate import Gateway
from hookgate.core.settings.schema import Settings

async def main():
    gateway = Gateway(Settings(plugin={"embedding": {"embedder": "none"}}))
    said = gateway.host.say_started

    # What is loaded for later turns is loaded from then on, on threads.
    def say():
        print("loaded:", [name for name in %r if name in sys.modules])
        said()

    gateway.host.say_started = say
    async with gateway:
        pass

asyncio.run(main())
"""
LATE = (
    "alembic",
    "faiss",
    "hookgate.builtin_plugins.control.models",
    "hookgate.builtin_plugins.inventory.writing",
    "hookgate.builtin_plugins.memory.facts",
    "hookgate.builtin_plugins.memory.models",
    "hookgate.builtin_plugins.memory.recall.query",
    "hookgate.builtin_plugins.packs.calls",
    "hookgate.builtin_plugins.policy.bench.models",
    "hookgate.builtin_plugins.wasm.guests",
    "hookgate.builtin_plugins.wasm.packages.manifest",
    "httpx",
    "numpy",
    "sqlalchemy.dialects.postgresql",
    "wasmtime",
)
"""What a gateway without coding agents, guests and requests need not have loaded when it starts."""


def test_a_start_loads_nothing_that_few_turns_need(hookgate: CommandLine) -> None:
    ran = _run(READY % (LATE,), home=hookgate)

    assert ran.stdout.splitlines()[-1:] == ["loaded: []"], ran.stderr
