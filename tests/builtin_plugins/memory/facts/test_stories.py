from __future__ import annotations

import pytest
from tests.builtin_plugins.memory.facts.telling import Story, stories, wrong_in
from tests.support.examples import sampled

STORIES = stories("stories.toml")


def test_the_table_has_its_stories() -> None:
    assert len(STORIES) >= 50
    assert len({story.name for story in STORIES}) == len(STORIES)


@pytest.mark.parametrize("story", sampled(STORIES), ids=lambda story: story.name)
def test_what_is_known_is_what_was_said(story: Story) -> None:
    assert wrong_in(story) == []


def test_stories_that_nothing_is_tuned_on_come_out_right_nine_times_of_ten() -> None:
    wrong = {story.name: wrong_in(story) for story in stories("stories_held_out.toml")}
    right = [name for name, found in wrong.items() if not found]
    false = [one for found in wrong.values() for one in found if one.startswith("should not")]

    assert len(right) >= 0.9 * len(wrong), {name: found for name, found in wrong.items() if found}
    assert false == []
