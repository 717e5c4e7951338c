"""What several test folders share. A folder's own fixtures stand in its own conftest."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from functools import cache

import hypothesis
import pytest

from hookgate.builtin_plugins.egress import plugin as egress

pytest_plugins = ["tests.support.postgres"]

# A deadline would measure the machine: on a busy one any example can take long for once.
# `make test-slow` runs the properties again with the profile "full".
hypothesis.settings.register_profile("full", deadline=None)
hypothesis.settings.register_profile("unit", deadline=None, max_examples=25)
hypothesis.settings.load_profile("unit")


@pytest.fixture(scope="session")
def short() -> bool:
    """Whether slow suites run in their short form, as they do in CI."""
    return os.environ.get("HOOKGATE_TEST_SHORT") == "1"


@pytest.fixture(scope="session", autouse=True)
def temporary(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Have what asks for a temporary folder by itself leave it where pytest tidies up."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tempfile, "tempdir", str(tmp_path_factory.mktemp("temporary")))
        yield


@pytest.fixture(scope="session", autouse=True)
def authorities() -> Iterator[None]:
    """Read the certificate authorities once in a process, and not for every gateway."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(egress, "tls_settings", cache(egress.tls_settings))
        yield
