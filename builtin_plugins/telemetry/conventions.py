"""The names that OpenTelemetry's conventions for generative AI give to figures.

The conventions (https://github.com/open-telemetry/semantic-conventions-genai) are still in
development, and names have moved before: all of them stand here and nowhere else.
"""

from __future__ import annotations

TOKEN_USAGE = "gen_ai.client.token.usage"
"""A histogram of tokens, one measurement for each model call and direction."""
OPERATION_DURATION = "gen_ai.client.operation.duration"
"""A histogram of seconds, one measurement for each model call."""

OPERATION_NAME = "gen_ai.operation.name"
PROVIDER_NAME = "gen_ai.provider.name"
REQUEST_MODEL = "gen_ai.request.model"
TOKEN_TYPE = "gen_ai.token.type"
TOOL_NAME = "gen_ai.tool.name"
ERROR_TYPE = "error.type"

CHAT = "chat"
"""The value of `OPERATION_NAME` for every model call of a turn."""
INPUT = "input"
OUTPUT = "output"
"""The values of `TOKEN_TYPE`."""

DURATION_BOUNDARIES = tuple(0.01 * 2**step for step in range(14))
"""Seconds, 0.01 to 81.92: the boundaries that the conventions recommend."""
TOKEN_BOUNDARIES = tuple(float(4**step) for step in range(14))
"""Tokens, 1 to 67,108,864: the boundaries that the conventions recommend."""
