"""Usage as both vendors write it reads back as what it was."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from hookgate import Usage
from hookgate.kit.usage import (
    anthropic_messages,
    as_anthropic_messages,
    as_openai_chat,
    openai_chat,
)

COUNT = st.integers(0, 1_000_000)


@given(st.builds(Usage, **dict.fromkeys(Usage.COUNTS, COUNT)))
def test_no_token_is_lost_or_counted_twice(usage: Usage) -> None:
    for read in (
        openai_chat(as_openai_chat(usage)),
        anthropic_messages(as_anthropic_messages(usage)),
    ):
        assert (read.total_input, read.total_output) == (usage.total_input, usage.total_output)
        assert read.cache_read_tokens == usage.cache_read_tokens
        assert read.reasoning_tokens == usage.reasoning_tokens
