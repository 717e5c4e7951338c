"""How much of many examples is tried among the unit tests."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import settings


def examples(most: int, **more: Any) -> settings:
    """Try so many with all examples (`make test-slow`), and a tenth among the unit tests."""
    whole = settings.get_current_profile_name() == "full"
    return settings(max_examples=most if whole else max(1, most // 10), **more)


def sampled(cases: Iterable[Any], every: int = 10) -> list[Any]:
    """Return the cases of a family: the first and every tenth among the unit tests.

    All of them are tried by `make test-slow`. A case that is a tuple has a value for each name.
    """
    found = []
    for number, case in enumerate(cases):
        slow = [pytest.mark.slow] if number % every else []
        if isinstance(case, type(pytest.param())):
            found.append(pytest.param(*case.values, id=case.id, marks=[*case.marks, *slow]))
        else:
            found.append(pytest.param(*(case if isinstance(case, tuple) else (case,)), marks=slow))
    return found
