"""Tools that a request brings and its client runs: what of them is believed."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from hookgate.core.domain.descriptors import FLAG_NAMES, Flags
from hookgate.core.domain.errors import ClientToolError
from hookgate.core.domain.names import identity

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from hookgate.core.domain.tools import Tool
    from hookgate.core.domain.turn import Principal

__all__ = ["admitted", "stricter"]


def admitted(
    brought: Sequence[Tool],
    own: Mapping[str, Tool],
    principal: Principal,
    believed: Collection[str],
) -> tuple[Tool, ...]:
    """Return the tools of a request as they may be offered.

    Args:
        brought: The tools, as the request declares them.
        own: The gateway's own tools by name.
        principal: Who brings them.
        believed: The ids of the principals whose declarations are believed.

    Raises:
        ClientToolError: One has the name of a tool of the gateway's own, or of another.
    """
    if not brought:
        return ()
    seen: set[str] = set()
    tools: list[Tool] = []
    names = set(map(identity, own))
    for tool in brought:
        name = identity(tool.name)
        if name in names or name in seen:
            whose = "this gateway" if name in names else "the same request"
            raise ClientToolError(
                f"the request brings a tool {tool.name!r}, and {whose} has one of that name",
                code="client_tool_taken",
                action="give the client's tool another name",
                data={"tool": tool.name},
            )
        seen.add(name)
        flags = replace(tool.flags, proven=frozenset())
        if principal.id not in believed and "*" not in believed:
            flags = stricter(flags)
        tools.append(replace(tool, owner="client", sandbox="client", run=None, flags=flags))
    return tuple(tools)


def stricter(flags: Flags) -> Flags:
    """Return what of a declaration can be believed of anybody: a True, and never a False."""
    return Flags.from_mapping({name: True for name in FLAG_NAMES if flags.get(name)})
