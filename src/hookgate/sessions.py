"""What a store keeps for all gateways, and what stands in for it within one process."""

# ruff: noqa: I001

from hookgate.core.domain.ports import (
    STOPPED as STOPPED,
)
from hookgate.core.sessions.lanes import (
    InProcessLanes as InProcessLanes,
)
from hookgate.core.sessions.switches import (
    FileSwitches as FileSwitches,
    Watchers as Watchers,
)
