"""The benchmark of starts: whose help it measures, and that its figures can be had."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from benchmarks import start


def test_every_command_is_measured_those_of_plugins_and_operations_too() -> None:
    found = dict(start.words_of_commands())

    assert found["policy",] is True
    assert found["serve",] is found["policy", "explain"] is found["approvals", "list"] is False


def test_what_ends_badly_is_no_figure() -> None:
    with tempfile.TemporaryDirectory() as home:
        cpu, clock = start.spent(start.HERE, ["-c", "pass"], Path(home))
        assert 0 < cpu < clock * 2
        with pytest.raises(RuntimeError, match="ended with 3"):
            start.spent(start.HERE, ["-c", "raise SystemExit(3)"], Path(home))
