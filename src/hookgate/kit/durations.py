"""Lengths of time as people write them: ``90s``, ``10m``, ``2h``, ``7d``."""

from __future__ import annotations

import re
from typing import Annotated, Any, TypeAlias

from pydantic import BeforeValidator

__all__ = ["FORMS", "Days", "Seconds", "seconds_of", "told"]

FORMS = "90s, 10m, 2h or 7d"
"""How messages say what is expected."""

DAY = 86_400.0

_FORM = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,3})?)([smhd])")
_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": DAY}


def seconds_of(text: str) -> float:
    """Return how many seconds `text` is.

    Raises:
        ValueError: It is none of the forms.
    """
    if found := _FORM.fullmatch(text.strip()):
        return float(found[1]) * _UNITS[found[2]]
    raise ValueError(f"found {text[:40]!r}, expected {FORMS}")


def told(seconds: float) -> str:
    """Return a length of time in its largest whole unit, such as ``10m``."""
    for unit, size in reversed(_UNITS.items()):
        if seconds >= size and seconds % size == 0:
            return f"{seconds / size:g}{unit}"
    return f"{seconds:g}s"


def _in_seconds(value: Any) -> Any:
    return seconds_of(value) if isinstance(value, str) else value


def _in_days(value: Any) -> Any:
    return seconds_of(value) / DAY if isinstance(value, str) else value


Seconds: TypeAlias = Annotated[float, BeforeValidator(_in_seconds)]
"""A setting in seconds: a number of them, or a text such as ``10m``."""

Days: TypeAlias = Annotated[float, BeforeValidator(_in_days)]
"""A setting in days: a number of them, or a text such as ``36h``."""
