"""What the grants of a guest prove about its tools.

A guest reaches the world through its grants and by no other way. What no grant allows cannot
happen, and what one allows has to be counted as done. Text that a guest keeps in its store carries
the taint of the turn that brought it, so a namespace alone is no external data.

One thing grants do not prove: what a request changes at the other side. That a GET changes nothing
is the other side's word, and many a GET sends a message. So wherever a guest writes any part of
what it asks for, whether a tool writes or has something act later rests on its declaration. What
is left is a request by `SAFE` methods to one fixed path without query and body, of which a guest
decides when it is sent and which headers, none of them a method: whoever granted it has read it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from hookgate import FLAG_NAMES, Flags

if TYPE_CHECKING:
    from hookgate.builtin_plugins.wasm.packages.grants import Granted

SAFE = frozenset(("GET", "HEAD", "OPTIONS"))
"""Methods by which a caller asks for no change (RFC 9110, 9.2.1)."""


def flags_of(granted: Granted, declared: Mapping[str, bool | None]) -> Flags:
    """Return the flags of a tool, each proven one with its ground.

    Args:
        granted: The grants of its plugin.
        declared: What the manifest declares, by the flag's name.
    """
    known = _known(granted)
    values = {name: known[name][0] if name in known else declared.get(name) for name in FLAG_NAMES}
    return Flags(
        **values,
        proven=frozenset(known),
        grounds=tuple((name, ground) for name, (_, ground) in known.items()),
    )


def contradictions(granted: Granted, declared: Mapping[str, bool | None]) -> list[str]:
    """Return what a declaration says and the grants disprove, in sentences."""
    return [
        f"`{name} = {_lower(declared[name])}` is declared, and the grants prove {_lower(value)} "
        f"({ground})"
        for name, (value, ground) in _known(granted).items()
        if declared.get(name) is not None and declared[name] != value
    ]


def _known(granted: Granted) -> dict[str, tuple[bool, str]]:
    """Return what the grants prove: the flag's name, its value and the ground."""
    sends = [one.text for one in granted.http]
    reads = [*sends, *(one.text for one in granted.folders), *(one.text for one in granted.env)]
    writes = [one.text for one in granted.stores.values()]
    known = {
        "reads_external_data": (bool(reads), _ground(reads, "no grant http:, fs-read: or env:")),
        "sends_externally": (bool(sends), _ground(sends, "no grant http:")),
        "executes_privileged": (False, "no grant runs commands"),
    }
    fixed = all(SAFE.issuperset(one.methods) and one.is_one_url for one in granted.http)
    asks = "http: asks for fixed paths alone" if granted.http else "no grant http:"
    if writes or fixed:
        known["writes_persistent_state"] = (bool(writes), _ground(writes, f"no store:, and {asks}"))
    if fixed:
        ground = f"a guest ends with its call, and {asks}"
        known["creates_autonomous_actions"] = (False, ground)
    return known


def _ground(grants: Sequence[str], without: str) -> str:
    more = f" and {len(grants) - 2} more" if len(grants) > 2 else ""
    return ", ".join(grants[:2]) + more if grants else without


def _lower(value: bool | None) -> str:
    return str(value).lower()
