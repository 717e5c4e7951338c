"""What commands show of the results of these operations."""

from __future__ import annotations

from hookgate.kit.rendering import listing

VIEWS = {
    "cards.list": listing(
        "cards",
        "there is no card: `hookgate cards new NAME` begins one, and `capability_dirs` names the "
        "folders that are looked in",
        *("id", "whose", "priority", "router_tags", "state", "why"),
    )
}
