"""``hookgate prices``: what models cost, and whether that is known."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.cli.conftest import CommandLine

AGENTS = """
[agents.main]
model = "openai/gpt-4o"
fallback = ["{fallback}"]

[plugin.metering.prices."mine/*"]
as = "openai"
output = 7.5
"""


def test_prices_of_the_agents_models_are_shown(hookgate: CommandLine) -> None:
    hookgate.config(AGENTS.format(fallback="mine/gpt-4o"))
    ran = hookgate("prices", "show")
    assert ran.code == 0, ran.err
    assert "genai-prices openai/gpt-4o" in " ".join(ran.out.split())
    assert "7.5" in ran.out


def test_one_model_is_shown_as_json(hookgate: CommandLine) -> None:
    hookgate.config(AGENTS.format(fallback="mine/gpt-4o"))
    ran = hookgate("prices", "show", "mine/gpt-4o", "--json")
    (one,) = json.loads(ran.out)["models"]
    assert one["prices"]["output_tokens"] == {"usd": "7.5", "steps": []}
    assert one["prices"]["cache_read_tokens"] == {"usd": "1.25", "steps": []}
    assert one["version"].startswith("settings ")


def test_long_input_and_other_kinds_are_told(hookgate: CommandLine) -> None:
    def shown(model: str) -> str:
        return " ".join(hookgate("prices", "show", model, COLUMNS="240").out.split())

    hookgate.config(AGENTS.format(fallback="mine/gpt-4o"))
    assert "6 above 200,000" in shown("anthropic/claude-sonnet-4-5")
    assert "audio input 32" in shown("openai/gpt-audio")
    assert "0.012 a call" in shown("perplexity/sonar")


def test_without_agents_there_is_nothing_to_check(hookgate: CommandLine) -> None:
    ran = hookgate("prices", "check")
    assert (ran.code, ran.out.strip()) == (0, "no agent of the settings asks a model")


def test_a_check_fails_where_a_model_has_no_price(hookgate: CommandLine) -> None:
    hookgate.config(AGENTS.format(fallback="acme/gpt-4o"))
    ran = hookgate("prices", "check")
    assert ran.code == 1
    assert "unknown acme/gpt-4o (main)" in ran.out
    assert 'as = "openai"' in ran.out
    hookgate.config(AGENTS.format(fallback="mine/gpt-4o"))
    ran = hookgate("prices", "check")
    assert ran.code == 0
    assert "known openai/gpt-4o (main)" in ran.out


def test_a_name_that_is_none_is_refused(hookgate: CommandLine) -> None:
    ran = hookgate("prices", "show", "gpt-4o")
    assert ran.code != 0
    assert "expected `provider/model`" in ran.err
