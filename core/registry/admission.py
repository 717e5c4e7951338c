"""What a tool, a capability and a card must be before a model can be offered it.

However it comes in, what is admitted is a copy that nobody can change, the plugin that brought
it included: pins, grants and judgements hold for what was admitted.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import fields, is_dataclass, replace
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from hookgate.core.domain.descriptors import (
    FLAG_NAMES,
    KIND_PATTERN,
    KINDS,
    Capability,
    Card,
    ExamplesError,
    Flags,
    checked_examples,
    identity,
)
from hookgate.core.domain.errors import HookgateError, ToolDefinitionError
from hookgate.core.domain.strict_json import NAME, compile_schema
from hookgate.core.domain.tools import Sandbox, Tool
from hookgate.core.domain.turn import CHANNELLESS, GUESTS, is_guest_channel

if TYPE_CHECKING:
    from hookgate.channels import Channel
    from hookgate.core.host import Host
    from hookgate.core.settings.schema import TurnSettings

T = TypeVar("T")


def _refuse(self: object, *_: object, **__: object) -> NoReturn:
    raise TypeError(
        "this was admitted as it is and does not change any more: change a copy of it, such as "
        "copy.deepcopy makes, and bring that"
    )


class FrozenDict(dict[str, Any]):
    """A dict that refuses to be changed."""

    __slots__ = ()

    if not TYPE_CHECKING:
        __setitem__ = __delitem__ = __ior__ = _refuse
        clear = pop = popitem = setdefault = update = _refuse

    def __deepcopy__(self, memo: object) -> dict[str, Any]:
        return {key: _thawed(value) for key, value in self.items()}

    def __reduce__(self) -> tuple[Any, ...]:
        return frozen_json, (self.__deepcopy__(None),)


class FrozenList(list[Any]):
    """A list that refuses to be changed."""

    __slots__ = ()

    if not TYPE_CHECKING:
        __setitem__ = __delitem__ = __iadd__ = __imul__ = _refuse
        append = clear = extend = insert = pop = remove = reverse = sort = _refuse

    def __deepcopy__(self, memo: object) -> list[Any]:
        return [_thawed(value) for value in self]

    def __reduce__(self) -> tuple[Any, ...]:
        return frozen_json, (self.__deepcopy__(None),)


def _thawed(value: Any) -> Any:
    return value.__deepcopy__(None) if isinstance(value, FrozenDict | FrozenList) else value


def frozen_json(value: Any) -> Any:
    """Return a copy of a value of JSON that nobody can change.

    Raises:
        TypeError: It holds something that JSON does not know.
        RecursionError: It holds itself.
    """
    if value is None or isinstance(value, str | int | float):
        return value
    if isinstance(value, Mapping):
        return FrozenDict({key: frozen_json(inner) for key, inner in value.items()})
    if isinstance(value, list | tuple):
        return FrozenList([frozen_json(inner) for inner in value])
    raise TypeError(f"it holds a {type(value).__name__}, which JSON does not know")


def settled(thing: T) -> T:
    """Return a frozen dataclass whose fields hold nothing that can change, `thing` if it is one.

    Lists become tuples, sets frozensets, and dicts refuse to be changed.
    """
    if not is_dataclass(thing) or isinstance(thing, type):
        return thing
    before = {item.name: getattr(thing, item.name) for item in fields(thing) if item.init}
    after = {name: _settled(value) for name, value in before.items()}
    if all(after[name] is value for name, value in before.items()):
        return thing
    made: T = type(thing)(**after)
    return made


def _settled(value: Any) -> Any:
    kind = type(value)
    if kind is str or kind is bool or kind is int or value is None:
        return value
    if kind is tuple:
        made = tuple(map(_settled, value))
        return value if all(new is old for new, old in zip(made, value, strict=True)) else made
    if isinstance(value, list | tuple):
        return tuple(map(_settled, value))
    if kind is FrozenDict or kind is frozenset:
        return value
    if isinstance(value, set | frozenset):
        return frozenset(value)
    if isinstance(value, Mapping):
        return FrozenDict({key: _settled(inner) for key, inner in value.items()})
    return settled(value)


# -- what is admitted ------------------------------------------------------------

SANDBOX_RUNNER = "wasm"
"""The name under which the plugin runs that runs tools in a sandbox. What a sandbox proves, that
plugin alone may say."""

OWN = ("builtin", "program")
"""Origins of plugins whose words count as the gateway's own."""

_FIELDS = tuple(item.name for item in fields(Tool) if item.init)
_PARTS = attrgetter(
    *("tags", "examples", "parameters", "parameter_texts", "required_secrets", "required_tools"),
    *("flags", "flags.proven"),
)
_CHANNEL = ("sandboxed", "features", "send", "edit")
_KIND = re.compile(KIND_PATTERN)
_SOUND = {tuple, Flags, frozenset}


def tool_admission(settings: TurnSettings) -> Callable[[str, Tool], Tool]:
    """Return the check that the registry of tools makes of each one.

    The check returns a copy of the tool, stamped with the plugin that brought it, or raises
    `ToolDefinitionError`.
    """

    def admit(source: str, tool: Tool) -> Tool:
        if type(tool) is Tool and tool.admitted and tool.plugin == source:
            return tool
        made = _copied(source, tool)
        if wrong := _wrong(source, made, settings):
            raise ToolDefinitionError(made.name, wrong)
        compile_schema(made.schema, tool=made.name)
        object.__setattr__(made, "admitted", True)
        return made

    return admit


def _wrong(source: str, tool: Tool, settings: TurnSettings) -> str:
    if not NAME.fullmatch(tool.name):
        return "expected a name of 1 to 64 characters of [A-Za-z0-9_-]"
    if tool.run is None and tool.owner == "host":
        return "it has no runner: set `run`"
    if not isinstance(tool.idempotent, bool | None):
        return f"found idempotent={tool.idempotent!r}, expected True, False, or None: not known"
    if claims := _claims(source, tool.flags, tool.sandbox):
        return claims
    if settings.sandbox == "required" and tool.sandbox != "wasm":
        return f"found sandbox {tool.sandbox!r}, expected 'wasm': `turn.sandbox` is 'required'"
    return ""


def channel_admission(settings: TurnSettings) -> Callable[[str, Channel], Channel]:
    """Return the check that the registry of channels makes of each one.

    The check returns the channel, or raises `HookgateError`.
    """

    def admit(source: str, channel: Channel) -> Channel:
        missing = [name for name in _CHANNEL if not hasattr(channel, name)]
        if missing:
            raise HookgateError(
                f"channel {channel.name!r}: found no {', '.join(missing)}, expected a `Channel`"
            )
        if why := _misnamed(source, channel.name):
            raise HookgateError(f"channel {channel.name!r}: {why}")
        # Nobody but the runner can prove that code is sandboxed.
        if settings.sandbox == "required" and not (channel.sandboxed and source == SANDBOX_RUNNER):
            raise HookgateError(
                f"channel {channel.name!r}: its code does not run in WASM, and `turn.sandbox` is "
                "'required'"
            )
        return channel

    return admit


def _misnamed(plugin: str, channel: str) -> str:
    """Return why a channel that `plugin` brings cannot have its name; "" where it can."""
    read = identity(channel)  # one that reads as another does is taken for it
    if (plugin == SANDBOX_RUNNER) != is_guest_channel(read):
        return (
            f"the names of the channels of the plugin {SANDBOX_RUNNER!r}, which run in "
            f"the sandbox, begin with {GUESTS!r}, and those of no other plugin do: rename it"
        )
    if read in CHANNELLESS:
        return (
            f"{channel!r} stands where no channel brings a message, and this one would "
            "speak in those sessions: give it another name"
        )
    return ""


def _copied(source: str, tool: Tool) -> Tool:
    # Read once, and made anew: a class of the plugin's own could answer otherwise later.
    values = {name: getattr(tool, name) for name in _FIELDS}
    try:
        values["schema"] = frozen_json(values["schema"])
    except (TypeError, RecursionError) as error:
        raise ToolDefinitionError(values["name"], f"the schema is not valid: {error}") from error
    try:
        examples = checked_examples(values["examples"])
    except ExamplesError as error:
        raise ToolDefinitionError(values["name"], str(error)) from error
    flags, tags = _plain(values["flags"]), tuple(values["tags"])
    values.update(flags=flags, tags=tags, examples=examples, plugin=source)
    return Tool(**values)


def admit_capability(source: str, row: Capability) -> Capability:
    """Return the capability as it is kept.

    Raises:
        HookgateError: It says of itself what a sandbox alone can prove, its kind is no name, or
            its examples are too many or no messages.
    """
    if row.kind not in KINDS and not _KIND.fullmatch(str(row.kind)):
        raise HookgateError(
            f"capability {row.id!r}: found the kind {row.kind!r}, expected one of "
            f"{', '.join(KINDS)}, or a word of your own: lower-case letters, digits, _ and -"
        )
    try:
        if row.examples and checked_examples(row.examples) != row.examples:
            row = replace(row, examples=checked_examples(row.examples))
    except ExamplesError as error:
        raise HookgateError(f"capability {row.id!r}: {error}") from error
    # There may be very many, and nearly all of them are as they should be.
    sound = set(map(type, _PARTS(row))) == _SOUND
    if sound and not row.flags.proven:
        return row
    flags = _plain(row.flags)
    if wrong := _claims(source, flags):
        raise HookgateError(f"capability {row.id!r}: {wrong}")
    if sound:
        return row
    return replace(settled(row), flags=flags)


def admit_card(_: str, card: Card) -> Card:
    """Return the card as it is kept."""
    return settled(card)


def _plain(flags: Flags) -> Flags:
    if type(flags) is Flags and type(flags.proven) is frozenset and not flags.grounds:
        return flags
    values = {name: getattr(flags, name) for name in FLAG_NAMES}
    grounds = tuple((str(name), str(text)) for name, text in flags.grounds)
    return Flags(**values, proven=frozenset(flags.proven), grounds=grounds)


def _claims(source: str, flags: Flags, sandbox: Sandbox = "python") -> str:
    """Return what `source` says of its own, and has no say in; "" where there is nothing."""
    if source == SANDBOX_RUNNER:
        return ""
    claims = [f"it runs in the sandbox {sandbox!r}"] if sandbox == "wasm" else []
    if flags.proven:
        claims.append(f"its flags are proven ({', '.join(sorted(flags.proven))})")
    if not claims:
        return ""
    return (
        f"plugin {source!r} says that {' and that '.join(claims)}, which the plugin "
        f"{SANDBOX_RUNNER!r} alone may say: it runs the sandbox, or is what `[plugins] replace` "
        "puts in its place. Leave it out"
    )


def own_sources(host: Host) -> frozenset[str]:
    """Return the sources whose words count as the gateway's own."""
    return frozenset(
        {info.name for info in host.plugins(every=True) if info.origin in OWN} | {"core"}
    )


def is_own(tool: Tool, own: Collection[str]) -> bool:
    """Whether a tool's words are the gateway's own.

    What a plugin of the gateway runs elsewhere, in a sandbox or at a server, comes from elsewhere.

    Args:
        tool: The tool.
        own: What `own_sources` returns.
    """
    return tool.plugin in own and tool.sandbox == "python"
