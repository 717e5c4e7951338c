"""From the settings' agents to `Agent` values, souls read from their files."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING

from hookgate.core.domain.errors import ConfigError, Problem
from hookgate.core.domain.models import ModelRef
from hookgate.core.domain.turn import Agent

if TYPE_CHECKING:
    from hookgate.core.settings.schema import AgentSettings, Settings

DEMO_AGENT = Agent(name="demo", models=(ModelRef("demo", "demo"),))
"""The agent of a gateway without any configured one."""

MAX_SOUL_BYTES = 65_536


async def load_agents(settings: Settings) -> dict[str, Agent]:
    """Return the configured agents by name, or the demo agent where there are none.

    Raises:
        ConfigError: Every soul's file that cannot be read, is not UTF-8 or is too long.
    """
    if not settings.agents:
        return {DEMO_AGENT.name: DEMO_AGENT}
    return await asyncio.to_thread(_agents, settings.agents)


def _agents(sections: Mapping[str, AgentSettings]) -> dict[str, Agent]:
    agents: dict[str, Agent] = {}
    problems: list[Problem] = []
    for name, section in sections.items():
        try:
            agents[name] = _agent(name, section)
        except ConfigError as error:
            problems += error.problems
    if problems:
        raise ConfigError(problems)
    return agents


def _agent(name: str, section: AgentSettings) -> Agent:
    return Agent(
        name=name,
        models=section.models,
        soul=_soul(name, section),
        tools=section.tools,
        max_output_tokens=section.max_output_tokens,
        temperature=section.temperature,
        settings=section.options,
    )


def _soul(name: str, section: AgentSettings) -> str:
    if section.soul_file is None:
        return section.soul
    key, path = f"agents.{name}.soul_file", section.soul_file.expanduser()
    try:
        raw = path.read_bytes()
        if len(raw) > MAX_SOUL_BYTES:
            raise ValueError(f"it has {len(raw)} bytes, and {MAX_SOUL_BYTES} are the most")
        return raw.decode("utf-8")
    except (OSError, ValueError) as error:
        problem = Problem(
            key=key,
            found=f"{path} ({error})",
            expected="a readable UTF-8 file",
        )
        raise ConfigError([problem]) from error
