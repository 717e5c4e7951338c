"""What several test folders share. A folder's own fixtures stand in its own conftest."""

from __future__ import annotations

import os

import hypothesis
import pytest

# A deadline would measure the machine: on a busy one any example can take long for once.
hypothesis.settings.register_profile("hookgate", deadline=None)
hypothesis.settings.load_profile("hookgate")


@pytest.fixture(scope="session")
def short() -> bool:
    """Whether slow suites run in their short form, as they do in CI."""
    return os.environ.get("HOOKGATE_TEST_SHORT") == "1"
