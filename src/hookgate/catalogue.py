"""What there is, as one who selects or lists it sees it: tools, capabilities and cards."""

# ruff: noqa: I001

from hookgate.core.domain.descriptors import (
    EXAMPLES as EXAMPLES,
    EXAMPLE_CHARS as EXAMPLE_CHARS,
    ExamplesError as ExamplesError,
    KINDS as KINDS,
    KIND_PATTERN as KIND_PATTERN,
    Whose as Whose,
    checked_examples as checked_examples,
    kind_label as kind_label,
    kind_order as kind_order,
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
