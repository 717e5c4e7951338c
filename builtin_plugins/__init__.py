"""The plugins that come with hookgate, and the order in which they load."""

from __future__ import annotations

__all__ = ["BUILTIN"]

BUILTIN = (
    "control",
    "storage",
    "egress",
    "embedding",
    "providers",
    "audit",
    "telemetry",
    "metering",
    "policy",
    "memory",
    "sanitizer",
    "awareness",
    "planning",
    "discovery",
    "inventory",
    "tools",
    "schedules",
    "wasm",
    "channels",
)
"""Names in load order: the last one registered is the first one called. Each is a
package ``hookgate.builtin_plugins.NAME`` whose ``plugin.py`` defines ``Plugin``."""
