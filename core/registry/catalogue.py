"""Collecting what plugins bring: providers, channels, tools, capabilities, cards, operations."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from hookgate import hookspecs
from hookgate.core.domain.descriptors import (
    EXAMPLES,
    Capability,
    CapabilityDetail,
    Card,
    Whose,
    identity,
    least_own,
    parameters_of,
)
from hookgate.core.domain.errors import HookgateError
from hookgate.core.domain.ports import FACES
from hookgate.core.domain.tools import Tool
from hookgate.core.hooks.caller import HookAnswer
from hookgate.core.registry.admission import SANDBOX_RUNNER, is_own, own_sources
from hookgate.core.registry.snapshots import CapabilityIndex, Registry, Snapshot

if TYPE_CHECKING:
    from hookgate.core.gateway.operations import Operation
    from hookgate.core.host import Host

T = TypeVar("T")

_PLURAL = {"channel": "channels", "tool": "tools", "capability": "capabilities", "card": "cards"}


class Catalogue:
    """Fills the host's registries, and makes the snapshots that turns draw on."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._snapshot = Snapshot()
        self._version = -1
        self._filled_once = False
        self._refused: dict[tuple[str, str], set[str]] = {}
        self._owners: dict[tuple[str, str], str] = {}

    async def fill(self) -> dict[str, int]:
        """Ask the plugins what they bring; return how many of each there are.

        A thing that cannot be offered is left out, and `status` says so: one that is wrong, and
        one whose name another plugin's has, where a builtin's counts before all others, and a
        tool that runs in the sandbox behind all.

        Raises:
            HookError: A required ``list_`` hook failed.
        """
        host = self._host
        await self.fill_providers()
        if not self._filled_once:
            await self._wire()
            self._filled_once = True
        await self._take(host.tools, hookspecs.list_tools)
        if (faces := host.get(FACES)) is not None:
            await faces.look(again=True)
        await self._take(host.capabilities, hookspecs.list_capabilities)
        await self._take(host.cards, hookspecs.list_cards)
        return {
            "tools": len(host.tools),
            "capabilities": len(host.capabilities),
            "cards": len(host.cards),
        }

    async def fill_providers(self) -> None:
        """Ask the plugins which providers they bring; calls that run go on with theirs.

        Raises:
            HookError: A plugin could not say it; all are those of before.
        """
        host, hooks = self._host, self._host.hooks
        described = await hooks.each(hookspecs.describe_providers, host)
        answers = self._in_order(await hooks.each_by_plugin(hookspecs.list_providers, host))
        # Nothing is awaited from here on, so nobody sees them half.
        for key in [key for key in self._owners if key[0] == "provider"]:
            del self._owners[key]
        host.described.clear()
        host.described.update({info.name: info for infos in described for info in infos})
        host.providers.clear()
        for answer in answers:
            for provider in answer.value or ():
                self._put(host.providers, "provider", provider.name, provider, answer.plugin)

    async def _wire(self) -> None:
        host, hooks = self._host, self._host.hooks
        await self._take(host.channels, hookspecs.list_channels)
        for brought in self._in_order(await hooks.each_by_plugin(hookspecs.list_operations, host)):
            self.add_operations(brought.plugin, brought.value or ())

    def _in_order(self, answers: Sequence[HookAnswer[T]]) -> list[HookAnswer[T]]:
        """Return answers in load order, so that of two things of one name a builtin's counts."""
        return sorted(answers, key=lambda answer: self._host.rank(answer.plugin))

    def add_operations(self, plugin: str, operations: Sequence[Operation[Any, Any]]) -> None:
        """Make `operations` known; one whose name is taken is left out, and that is told."""
        for operation in operations:
            stamped = operation.of(plugin)
            for name in (operation.name, *operation.also):
                self._put(self._host.operations, "operation", name, stamped, plugin)

    def _put(self, table: dict[str, T], what: str, name: str, thing: T, plugin: str) -> None:
        key = what, identity(name)
        if key in self._owners:
            self._host.clash(what, plugin, name, self._owners[key])
        else:
            table[name], self._owners[key] = thing, plugin

    # -- snapshots -----------------------------------------------------------

    def snapshot(self) -> Snapshot:
        """Return what turns draw on now; the same value until something changes."""
        host = self._host
        version = capability_version(host)
        if version != self._version:
            rows = CapabilityIndex(capability_rows(host), version)
            tools, faces = self._shown()
            self._snapshot = Snapshot(
                tools=tools, faces=faces, cards=host.cards.view(), capabilities=rows
            )
            self._version = version
        return self._snapshot

    def _shown(self) -> tuple[Mapping[str, Tool], Mapping[str, Tool]]:
        """Return the tools that turns may use, and those that models see otherwise, by name."""
        there, faces = self._host.tools.view(), self._host.get(FACES)
        if faces is not None:
            return faces.shown()
        own = own_sources(self._host)
        return {name: tool for name, tool in there.items() if is_own(tool, own)}, {}

    # -- one source at a time ------------------------------------------------

    async def _take(
        self, registry: Registry[T], spec: Callable[[Host], Sequence[T] | None]
    ) -> None:
        hooks = self._host.hooks
        answers = await hooks.each_by_plugin(spec, self._host)
        # Who returns None brings nothing now, whatever it brought before.
        silent = {one.plugin for one in hooks.implementations(spec)}
        silent.difference_update(answer.plugin for answer in answers)
        answers += [HookAnswer(plugin) for plugin in silent]
        # What others have written comes behind all plugins, whoever carries it.
        order = sorted(self._in_order(answers), key=lambda answer: answer.plugin == SANDBOX_RUNNER)
        for answer in order:
            whole = f"{_PLURAL[registry.what]} of {answer.plugin}"
            if answer.failure is not None:
                # What it brought before stays: last good rows are better than none.
                self._host.standing(whole).bad(answer.failure.message)
                continue
            self._host.standing(whole).good()
            good, refused = self._admitted(registry, answer.plugin, answer.value or ())
            registry.replace(answer.plugin, good)
            before = self._refused.get((registry.what, answer.plugin), ())
            turned = self._host.standing.turned(before, refused)
            self._refused[registry.what, answer.plugin] = turned

    def _admitted(
        self, registry: Registry[T], plugin: str, things: Sequence[T]
    ) -> tuple[list[T], dict[str, str]]:
        """Return what can be offered, and why each other one cannot."""
        good: list[T] = []
        refused: dict[str, str] = {}
        if registry.what in ("tool", "channel"):
            things = self._sandboxed(plugin, things)
        for thing in things:
            try:
                good.append(registry.admit(plugin, thing))
            except HookgateError as error:
                refused[f"{registry.what} {registry.name_of(thing)} of {plugin}"] = str(error)
        return good, refused

    def _sandboxed(self, plugin: str, things: Sequence[T]) -> list[T]:
        """Leave out what does not run in a sandbox, where the settings require one."""
        if self._host.settings.turn.sandbox != "required":
            return list(things)
        good = []
        for thing in things:
            sandboxed = getattr(thing, "sandboxed", getattr(thing, "sandbox", "") == "wasm")
            # Nobody else can prove it; a tool that says so all the same is told when admitted.
            if sandboxed and (plugin == SANDBOX_RUNNER or isinstance(thing, Tool)):
                good.append(thing)
            else:
                name = getattr(thing, "name", "?")
                self._host.log.warning(
                    "refused: it does not run in WASM, and turn.sandbox is 'required'",
                    name=name,
                    plugin=plugin,
                )
        return good


def capability_version(host: Host) -> int:
    """Return the version of all that `capability_rows` returns; each change makes it grow."""
    named = host.tools.version + host.channels.version + host.cards.version
    return named + host.capabilities.version + host.descriptions.version


def capability_rows(host: Host) -> dict[str, Capability]:
    """Return every capability by id, as it is now.

    What is said of a tool, a channel or a card by another source, or by ``host.descriptions``,
    is merged into the row that follows from the thing itself; see `described`. Tools that no
    model may see have none.
    """
    rows: dict[str, Capability] = {}
    own = own_sources(host)
    for tool in host.tools.view().values():
        whose: Whose = "own" if is_own(tool, own) else "plugin"
        rows[f"tool:{tool.name}"] = _of_tool(tool, whose)
    for name in host.channels:
        rows[f"channel:{name}"] = _of_channel(name)
    for card in host.cards.view().values():
        rows[f"card:{card.id}"] = _of_card(card)
    for brought in (host.capabilities.view(), host.descriptions.view()):
        for row_id, row in brought.items():
            known = rows.get(row_id)
            rows[row_id] = row if known is None else described(known, row)
    for name in host.unshown:
        rows.pop(f"tool:{name}", None)
    return rows


def described(own: Capability, said: Capability) -> Capability:
    """Return `own` with what `said` knows of it besides.

    Names for people, description, category, tags, examples and requirements come from `said`
    where it has them. What the thing is stays its own: kind, name, parameters, schema, flags, and
    whether it has side effects. It is available where both say so; one that is not by itself
    keeps its description, which says why. Its words are as foreign as the more foreign of both.
    """

    def load() -> CapabilityDetail:
        detail = own.load() if own.load else CapabilityDetail()
        try:
            more = said.load() if said.load else CapabilityDetail()
        except HookgateError:
            # A description that has become unreadable does not cost the tool its schema.
            more = CapabilityDetail()
        return CapabilityDetail(
            schema=more.schema if detail.schema is None else detail.schema,
            content=detail.content or more.content,
        )

    description = said.description or own.description
    if not own.available and own.description:
        description = own.description
    return replace(
        own,
        display_name=said.display_name or own.display_name,
        description=description,
        category=said.category or own.category,
        tags=tuple(dict.fromkeys((*said.tags, *own.tags))),
        examples=tuple(dict.fromkeys((*said.examples, *own.examples)))[:EXAMPLES],
        required_secrets=tuple(dict.fromkeys((*own.required_secrets, *said.required_secrets))),
        required_tools=tuple(dict.fromkeys((*own.required_tools, *said.required_tools))),
        available=own.available and said.available,
        source_ref=", described in ".join(filter(None, (own.source_ref, said.source_ref))),
        whose=least_own(own.whose, said.whose),
        load=load,
    )


def _of_tool(tool: Tool, whose: Whose) -> Capability:
    parameters, texts = parameters_of(tool.schema)
    return Capability(
        id=f"tool:{tool.name}",
        kind="tool",
        name=tool.name,
        display_name=tool.name.replace("_", " "),
        description=tool.description,
        category=tool.category,
        tags=tool.tags,
        examples=tool.examples,
        parameters=parameters,
        parameter_texts=texts,
        has_side_effects=tool.flags.writes_persistent_state is not False
        or tool.flags.sends_externally is not False,
        flags=tool.flags,
        source_ref=f"plugin {tool.plugin}",
        whose=whose,
        load=lambda: CapabilityDetail(schema=tool.schema),
    )


def _of_channel(name: str) -> Capability:
    return Capability(
        id=f"channel:{name}",
        kind="channel",
        name=name,
        display_name=name,
        category="communication",
        whose="own",
    )


def _of_card(card: Card) -> Capability:
    return Capability(
        id=f"card:{card.id}",
        kind="card",
        name=card.id,
        display_name=card.name or card.id,
        description=card.description,
        tags=card.triggers.router_tags,
        source_ref=card.source_ref,
        whose="own" if card.trusted else "foreign",
        load=lambda: CapabilityDetail(content=card.text),
    )
