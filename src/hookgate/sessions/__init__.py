"""What keeps conversations, lanes, questions and switches where no store does: this process.

`hookgate.Gateway` offers these before its plugins open; the plugin `storage` offers others in
their place, which all gateways on one store share, and builds on some of these.
"""

# ruff: noqa: I001

from hookgate.core.domain.ports import CONVERSATIONS, LANES, SWITCHES
from hookgate.ports import STORE
from hookgate.core.domain.ports import SIGNALS
from hookgate.ports import QUESTIONS, STOPPED as STOPPED
from hookgate.core.host import Host
from hookgate.sessions.in_process import InProcessConversations as InProcessConversations
from hookgate.sessions.in_process import InProcessLanes as InProcessLanes
from hookgate.sessions.in_process import InProcessQuestions as InProcessQuestions
from hookgate.sessions.in_process import InProcessSignals as InProcessSignals
from hookgate.sessions.switches import FileSwitches as FileSwitches, Watchers as Watchers


def offer_in_process(host: Host) -> None:
    """Offer all of them at `host`."""
    queue = host.settings.turn.lane_queue
    host.provide(LANES, InProcessLanes(lambda: host[CONVERSATIONS], queue=queue))
    host.provide(SIGNALS, InProcessSignals())
    host.provide(CONVERSATIONS, InProcessConversations())
    host.provide(SWITCHES, FileSwitches(host.settings.home))
    host.provide(QUESTIONS, InProcessQuestions(lambda: host.get(STORE)))
