"""What a help need not load is not loaded: it is most of what a command costs."""

from __future__ import annotations

import subprocess
import sys

import pytest
from tests.cli.conftest import CommandLine
from tests.support.examples import sampled

HEAVY = ("aiohttp", "httpx", "numpy", "sqlalchemy", "structlog", "hookgate.core.settings.schema")

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


@pytest.mark.parametrize(
    "words", sampled(["policy explain", "", "policy", "approvals", "approvals list"])
)
def test_help_loads_nothing_of_a_gateway(words: str, hookgate: CommandLine) -> None:
    # What is set in the environment is checked, which takes the models of the settings.
    environ = {
        name: value for name, value in hookgate.environ.items() if not name.startswith("HOOKGATE_")
    }
    ran = subprocess.run(
        [sys.executable, "-c", CODE.format(heavy=HEAVY), *words.split(), "--help"],
        env={**environ, "HOOKGATE_HOME": str(hookgate.home)},
        capture_output=True,
        text=True,
        check=False,
    )

    assert ran.returncode == 0, ran.stderr
    assert "Usage:" in ran.stdout
    assert "loaded: []" in ran.stdout
