"""What is in force, as one digest: an answer that was given under other rules is void."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from hookgate.builtin_plugins.policy.rules.profiles import cells
from hookgate.wire import canonical

if TYPE_CHECKING:
    from hookgate.builtin_plugins.policy.settings import PolicySettings


def policy_version(settings: PolicySettings, rules: str) -> str:
    """Return SHA-256 (hex) of the settings, of the profile's table and of the rules.

    Args:
        settings: The whole section.
        rules: The digest of the rules.
    """
    table = [
        [
            cell.flag,
            cell.value,
            cell.circumstances.provenance.value,
            cell.circumstances.tainted,
            cell.effect.name,
            cell.rule,
        ]
        for cell in cells(settings.profile)
    ]
    said = {"settings": settings.model_dump(mode="json"), "table": table, "rules": rules}
    return hashlib.sha256(canonical(said)).hexdigest()
