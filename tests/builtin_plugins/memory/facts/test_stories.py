from __future__ import annotations

import pytest
from tests.builtin_plugins.memory.facts.telling import Story, stories, wrong_in

STORIES = stories("stories.toml")


def test_the_table_has_its_stories() -> None:
    assert len(STORIES) >= 50
    assert len({story.name for story in STORIES}) == len(STORIES)


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.name)
def test_what_is_known_is_what_was_said(story: Story) -> None:
    assert wrong_in(story) == []
