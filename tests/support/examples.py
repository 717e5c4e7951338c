"""How many examples a property is tried with."""

from __future__ import annotations

from hypothesis import settings


def examples(most: int) -> settings:
    """Try so many with all examples (`make test-slow`), and a tenth among the unit tests."""
    whole = settings.get_current_profile_name() == "full"
    return settings(max_examples=most if whole else max(1, most // 10))
