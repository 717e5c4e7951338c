"""How many texts are computed together."""

from __future__ import annotations

from collections.abc import Sequence

BATCH_TOKENS = 128
"""Tokens of a batch, padding included.

Measured on one core with MiniLM, in milliseconds of computing for each text: texts of 64
tokens take 26 one by one, 24 in batches of 2 to 8, 29 in batches of 16 and 32 in batches of
32; texts of 12 tokens take 8.6 one by one, 3.7 in batches of 8 to 32 and 4.7 in batches of
64. So there is nothing to gain from large batches, and a query waits for at most one.
"""

BATCH_TEXTS = 32


def plan_batches(
    tokens: Sequence[int], *, most_tokens: int = BATCH_TOKENS, most_texts: int = BATCH_TEXTS
) -> list[list[int]]:
    """Return the places of texts, grouped by length into batches.

    Args:
        tokens: The tokens of each text.
        most_tokens: A batch is as long as its longest text times its texts, and no longer than
            this; a longer text is a batch by itself.
        most_texts: The most texts of a batch.
    """
    batches: list[list[int]] = []
    for place in sorted(range(len(tokens)), key=tokens.__getitem__):
        last = batches[-1] if batches else []
        if last and len(last) < most_texts and (len(last) + 1) * tokens[place] <= most_tokens:
            last.append(place)
        else:
            batches.append([place])
    return batches
