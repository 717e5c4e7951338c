"""The plugins that come with hookgate, and the order in which they load."""

from __future__ import annotations

BUILTIN = (
    "control",
    "storage",
    "keys",
    "egress",
    "embedding",
    "providers",
    "audit",
    "telemetry",
    "dashboard",
    "metering",
    "policy",
    "memory",
    "sanitizer",
    "awareness",
    "packs",
    "planning",
    "discovery",
    "inventory",
    "tools",
    "schedules",
    "compat",
    "wasm",
    "channels",
)
"""Names in load order: the last one registered is the first one called. Each is a
package ``hookgate.builtin_plugins.NAME`` whose ``plugin.py`` defines ``Plugin``."""

TOOLS = {
    "awareness_status": "awareness",
    "calculate": "tools",
    "clock": "tools",
    "discover_capabilities": "discovery",
    "forget": "memory",
    "http_get": "tools",
    "list_capabilities": "awareness",
    "read_capability": "discovery",
    "read_file": "tools",
    "read_reference": "awareness",
    "recall": "memory",
    "remember": "memory",
}
"""The tools that builtin plugins bring, granted or not, and which plugin does: rules, grants and
agents mean these by their names."""
