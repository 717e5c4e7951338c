"""Each request field of the vendors' SDKs stands in one table: a new one fails here first."""

from __future__ import annotations

from typing import Any

import pytest

from hookgate.builtin_plugins.compat.wires import chat_reader, messages_reader

CHAT = "openai.types.chat.completion_create_params"
MESSAGES = "anthropic.types.message_create_params"
BETA = "anthropic.types.beta.message_create_params"

PASSED = {
    CHAT: {"audio", "logit_bias", "modalities", "moderation", "prediction", "verbosity"}
    | {"prompt_cache_options"},
    MESSAGES: {"cache_control", "diagnostics", "inference_geo", "speed"}
    | {"user_profile_id", "workspace_id"},
    BETA: {"betas", "billing_policy", "compaction", "context_management", "fallback_credit_token"},
}
"""Sent as they came by the same wire, and named in a 400 by another."""
REFUSED = {CHAT: {"functions", "function_call"}, MESSAGES: set[str](), BETA: {"thread"}}
JUDGED = {
    CHAT: set(chat_reader.HOSTED),
    MESSAGES: {"container"},
    BETA: {"mcp_servers", "fallbacks"},
}
"""Refused unless somebody allows what they have the provider do."""


@pytest.mark.parametrize(
    ("module", "kind", "reader"),
    [
        (CHAT, "CompletionCreateParamsBase", chat_reader),
        (MESSAGES, "MessageCreateParamsBase", messages_reader),
        (BETA, "MessageCreateParamsBase", messages_reader),
    ],
)
def test_what_becomes_of_a_field_is_decided(module: str, kind: str, reader: Any) -> None:
    types = pytest.importorskip(module, reason="needs the vendor's SDK")
    known: set[str] = {*reader.MAPPED, *reader.HARMLESS}
    for table in (PASSED, REFUSED, JUDGED):
        known |= table[module]
        known |= table[MESSAGES] if module == BETA else set()
    fields = set(getattr(types, kind).__annotations__)
    assert fields - known == set(), "say in the reader, or here, what becomes of it"
