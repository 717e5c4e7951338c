"""What commands show of the results of these operations, and under which settings they run."""

from __future__ import annotations

from hookgate.kit.commands import View

VIEWS = {
    # Without this, a gateway in this process would refuse to start, and ask for this command.
    "db.upgrade": View(settings={"plugin.storage.auto_upgrade": True}),
}
