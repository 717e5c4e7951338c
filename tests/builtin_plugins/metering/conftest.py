from __future__ import annotations

import pytest


@pytest.fixture
def builtin_plugins() -> tuple[str, ...]:
    return ("control", "storage", "policy", "metering", "sanitizer")
