from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from hookgate.builtin_plugins.embedding.service import plan_batches


@given(
    tokens=st.lists(st.integers(1, 300), max_size=200),
    most_tokens=st.integers(1, 600),
    most_texts=st.integers(1, 40),
)
def test_every_text_is_in_one_batch_that_keeps_its_limits(
    tokens: list[int], most_tokens: int, most_texts: int
) -> None:
    batches = plan_batches(tokens, most_tokens=most_tokens, most_texts=most_texts)

    assert sorted(place for batch in batches for place in batch) == list(range(len(tokens)))
    for batch in batches:
        size = max(tokens[place] for place in batch) * len(batch)
        assert len(batch) == 1 or (size <= most_tokens and len(batch) <= most_texts)


def test_texts_of_one_length_are_computed_together() -> None:
    batches = plan_batches([10, 200, 11, 190, 12], most_tokens=400)

    assert batches == [[0, 2, 4], [3, 1]]
