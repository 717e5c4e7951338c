"""What several test folders share. A folder's own fixtures stand in its own conftest."""

from __future__ import annotations

import os

import pytest


@pytest.fixture(scope="session")
def short() -> bool:
    """Whether slow suites run in their short form, as they do in CI."""
    return os.environ.get("HOOKGATE_TEST_SHORT") == "1"
