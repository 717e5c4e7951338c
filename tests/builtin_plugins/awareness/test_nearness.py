from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from hookgate.builtin_plugins.awareness.selection.nearness import Nearness

Floats = np.ndarray[Any, np.dtype[np.float32]]


def rows(*values: list[float]) -> Floats:
    return np.array(values, np.float32)


def unit(matrix: Floats) -> Floats:
    lengths = np.linalg.norm(matrix, axis=-1, keepdims=True)
    return np.asarray(matrix / np.where(lengths > 0, lengths, 1), np.float32)


def test_a_vector_has_the_tag_of_the_example_that_it_is_like() -> None:
    near = Nearness(rows([1, 0, 0], [0, 1, 0]), [1, 1], rows([0, 0, 1]))
    assert near.nearest(rows([1, 0, 0])[0]) == [0]
    assert near.nearest(rows([0, 1, 0])[0]) == [1]
    assert near.nearest(rows([0, 0, 1])[0]) == []


def test_a_tag_may_have_several_examples() -> None:
    near = Nearness(rows([1, 0, 0], [0, 1, 0], [0, 0, 1]), [2, 1], rows([-1, 0, 0]))
    assert near.nearest(rows([0, 1, 0])[0]) == [0]
    assert near.nearest(rows([0, 0, 1])[0]) == [1]


def test_two_tags_that_are_as_near_count_both() -> None:
    near = Nearness(rows([1, 0, 0], [1, 0, 0], [0, 1, 0]), [1, 1, 1], rows([0, 0, 1]))
    assert sorted(near.nearest(rows([1, 0, 0])[0])) == [0, 1]


def test_one_tag_and_no_unrelated_message_will_do() -> None:
    near = Nearness(rows([1, 0]), [1], np.zeros((0, 2), np.float32))
    assert near.nearest(rows([1, 0])[0]) == [0]
    assert near.nearest(rows([0, 1])[0]) == []


def test_a_vector_that_is_no_number_has_no_tag() -> None:
    near = Nearness(rows([1, 0]), [1], rows([0, 1]))
    assert near.nearest(rows([np.nan, 0])[0]) == []


@given(st.data(), st.lists(st.integers(1, 4), min_size=1, max_size=5), st.integers(0, 5))
def test_whatever_the_vectors_at_most_two_tags_are_named(
    data: st.DataObject, counts: list[int], unrelated: int
) -> None:
    floats = st.floats(-1, 1, width=32)
    drawn = data.draw(arrays.arrays(np.float32, (sum(counts) + unrelated + 1, 3), elements=floats))
    vectors = unit(drawn)
    near = Nearness(vectors[: sum(counts)], counts, vectors[sum(counts) : -1])
    found = near.nearest(vectors[-1])
    assert len(found) <= 2
    assert len(set(found)) == len(found)
    assert all(0 <= at < len(counts) for at in found)


@pytest.mark.parametrize("share", [1, 50])
def test_many_unrelated_messages_weigh_no_more_than_few(share: int) -> None:
    near = Nearness(rows([1, 0]), [1], rows(*[[0, 1]] * share))
    assert near.nearest(unit(rows([1, 0.2]))[0]) == [0]


def with_subjects(count: int) -> tuple[Floats, Floats]:
    """Examples that say one thing, each of a subject of its own; and what is unrelated."""
    subjects = np.eye(2 * count + 1, dtype=np.float32)[1:]
    common = np.eye(2 * count + 1, dtype=np.float32)[0]
    return unit(subjects[:count] + common), subjects[count:]


def test_the_subject_of_an_example_is_no_reason_for_its_tag() -> None:
    examples, unrelated = with_subjects(120)
    near = Nearness(examples, [120], unrelated)
    common, subject = np.eye(241, dtype=np.float32)[:2]
    assert float((examples @ subject).max()) > 0.7
    assert near.nearest(subject) == []
    # What the examples have in common is one, whatever the subject.
    assert near.nearest(common) == [0]
    assert near.nearest(examples[0]) == [0]


def test_a_tag_of_few_examples_goes_by_the_nearest_one_alone() -> None:
    examples, unrelated = with_subjects(120)
    own = np.eye(241, dtype=np.float32)[240:]
    near = Nearness(np.concatenate([examples, own]), [120, 1], unrelated[:-1])
    asked = unit(own[0] + 0.3 * unrelated[0])
    assert near.nearest(asked) == [1]
