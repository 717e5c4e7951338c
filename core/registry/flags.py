"""What the flags of a request mean: the ``customFlags`` of its options."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hookgate.core.domain.errors import TurnError
from hookgate.core.domain.turn import RequestFlag
from hookgate.core.registry.snapshots import Registry

FAILURE_MODE = RequestFlag(
    name="toolFailureMode",
    aliases=("failureMode", "failMode"),
    values={
        "fail_open": "fail_open",
        "open": "fail_open",
        "fail_closed": "fail_closed",
        "closed": "fail_closed",
    },
)
"""What happens when discovery or a tool fails. ``fail_closed`` holds whatever a planner says."""

CUSTOM = "customFlags"
UNKNOWN = 8
"""So many names that nobody knows are told of."""
SHOWN = 80
"""Characters of a wrong value that are shown."""


class FlagReader:
    """Reads flags as they are declared at the moment.

    Args:
        declared: The flags, by name.
    """

    def __init__(self, declared: Registry[RequestFlag]) -> None:
        self._declared = declared
        self._version = -1
        self._by_name: dict[str, RequestFlag] = {}

    def read(self, options: Mapping[str, Any]) -> tuple[Mapping[str, Any], tuple[str, ...]]:
        """Return what the flags in `options` mean, and the first names that nobody declared.

        A flag may also stand beside ``customFlags``, where names that nobody knows are options
        of another kind.

        Raises:
            TurnError: A value means nothing, or one flag is given twice with two meanings.
        """
        if not options:
            return {}, ()
        custom = options.get(CUSTOM, {})
        if not isinstance(custom, Mapping):
            raise _invalid(f"found {_shown(custom)} as `{CUSTOM}`, expected an object of flags")
        if self._version != self._declared.version:
            self._version = self._declared.version
            self._by_name = {
                _folded(name): flag
                for flag in reversed(tuple(self._declared.view().values()))
                for name in (flag.name, *flag.aliases)
            }
        meanings: dict[str, Any] = {}
        unknown: list[str] = []
        for name, value in (*options.items(), *custom.items()):
            flag = self._by_name.get(_folded(name))
            if flag is None:
                if name in custom and len(unknown) < UNKNOWN:
                    unknown.append(name[:SHOWN])
                continue
            meaning = _meaning(flag, name, value)
            if meanings.setdefault(flag.name, meaning) != meaning:
                raise _invalid(f"found the flag `{flag.name}` twice, with two meanings")
        return meanings, tuple(unknown)


def _folded(name: str) -> str:
    return name.replace("_", "").replace("-", "").lower()


def _meaning(flag: RequestFlag, name: str, value: Any) -> Any:
    try:
        return flag.meaning(value)
    except Exception:  # noqa: BLE001 - a plugin reads it, and raises whatever it likes
        found = f"found {_shown(value)} as the flag `{name[:SHOWN]}`"
        raise _invalid(f"{found}, expected {flag.wanted}") from None


def _invalid(why: str) -> TurnError:
    action = "send another value, or leave the flag out"
    return TurnError.invalid(why, action)


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}..."
