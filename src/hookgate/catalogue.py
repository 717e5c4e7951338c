"""What there is, as one who selects or lists it sees it: tools, capabilities and cards."""

# ruff: noqa: I001

from hookgate.core.domain.descriptors import (
    EXAMPLES as EXAMPLES,
    EXAMPLE_CHARS as EXAMPLE_CHARS,
    ExamplesError as ExamplesError,
    CapabilityKind,
    KINDS as KINDS,
    KIND_PATTERN as KIND_PATTERN,
    Whose as Whose,
    checked_examples as checked_examples,
    least_own as least_own,
    parameters_of as parameters_of,
)
from hookgate.core.registry.catalogue import (
    capability_rows as capability_rows,
    capability_version as capability_version,
    described as described,
)
from hookgate.core.registry.snapshots import (
    Snapshot as Snapshot,
)
from hookgate.core.turn.tools.call import (
    matches as matches,
    may_use as may_use,
)
from hookgate.core.turn.tools.offer import (
    is_chosen as is_chosen,
)


def kind_order(kind: CapabilityKind) -> tuple[int, str]:
    """Return the place of a kind in a list: the known ones first, then the others by name."""
    known = list(KINDS)
    return (known.index(kind) if kind in KINDS else len(known), kind)


def kind_label(kind: CapabilityKind) -> str:
    """Return what many capabilities of a kind are called, such as ``Skills``."""
    return KINDS.get(kind) or f"{kind.replace('_', ' ').replace('-', ' ').capitalize()}s"
