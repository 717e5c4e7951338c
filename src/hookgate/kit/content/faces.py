"""How models see the tools that installed plugins bring: their words are those of others.

A tool's description, and every text of its schema, goes to a model with each request. So each
tool of a plugin that neither came with hookgate nor belongs to the embedding program is looked
at once, when it comes and not when a turn begins. What the sanitizers reject costs the tool its
place; what they clean is what models see. The tool itself stays as it was admitted: pins,
grants, judgements and the check of arguments hold for that one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any
from unicodedata import normalize

from hookgate import hookspecs
from hookgate.core.domain.descriptors import Card, Rejected
from hookgate.core.domain.tools import Tool
from hookgate.core.registry.admission import frozen_json, is_own, own_sources
from hookgate.core.registry.sanitizer import UNSANITIZED

if TYPE_CHECKING:
    from hookgate.core.host import Host

PART = "tools of others"
"""What `status` calls them where no plugin sanitizes."""

__all__ = ["Faces"]

PROSE = frozenset(("description", "title", "$comment", "examples", "default"))
"""Keys of a schema whose texts say something and bind nobody; they may be shown cleaned."""


class _UnfitError(Exception):
    """No model may see a tool; the message says why."""


@dataclass(frozen=True, slots=True)
class _Looked:
    """What was found of a tool: how models see it, or why they do not."""

    tool: Tool
    face: Tool | None
    why: str = ""

    @property
    def cleaned(self) -> bool:
        """Whether models see it otherwise than it is."""
        return self.face is not self.tool

    def is_of(self, tool: Tool) -> bool:
        """Whether it was found of `tool`, or of one that is the same."""
        return self.tool is tool or self.tool.digest == tool.digest


class Faces:
    """Looks at the tools of others, and knows how models see them.

    A tool that nobody has looked at yet is not shown.
    """

    def __init__(self, host: Host) -> None:
        self._host = host
        self._looked: dict[str, _Looked] = {}
        self._judged_by = 0
        self._told: set[str] = set()
        self._looking = asyncio.Lock()
        self._follows = False

    def shown(self) -> tuple[Mapping[str, Tool], Mapping[str, Tool]]:
        """Return the tools that turns may use, and those that models see otherwise, by name."""
        there = self._host.tools.view()
        own = own_sources(self._host)
        if all(is_own(tool, own) for tool in there.values()):
            return there, {}
        shown: dict[str, Tool] = {}
        faces: dict[str, Tool] = {}
        for name, tool in there.items():
            looked = self._looked.get(name)
            if is_own(tool, own):
                shown[name] = tool
            elif looked is not None and looked.face is not None and looked.is_of(tool):
                shown[name] = tool
                if looked.cleaned:
                    faces[name] = looked.face
        return shown, faces

    async def _follow(self) -> None:
        """Look at what comes between reloads, until cancelled."""
        changed = asyncio.Event()
        self._host.tools.watch(changed.set)
        while True:
            await self.look()
            await changed.wait()
            changed.clear()

    async def look(self, *, again: bool = False) -> None:
        """Look at every tool of others that nobody has looked at, or by other sanitizers.

        Args:
            again: Look once more at those that are not shown: a sanitizer may have failed.
        """
        if not self._follows:
            self._follows = True
            self._host.spawn(self._follow(), name="words of tools")
        async with self._looking:
            there, own = self._host.tools.view(), own_sources(self._host)
            version = self._host.sanitizers
            looked: dict[str, _Looked] = {}
            for name, tool in there.items():
                if is_own(tool, own):
                    continue
                known = self._looked.get(name)
                stays = known is not None and known.is_of(tool) and version == self._judged_by
                if known is None or not stays or (again and known.face is None):
                    looked[name] = await self._look_at(tool)
                else:
                    looked[name] = known
            self._judged_by = version
            if looked.keys() != self._looked.keys() or any(
                one is not self._looked[name] for name, one in looked.items()
            ):
                self._looked = looked
                self._tell()
                self._host.tools.changed()

    def _tell(self) -> None:
        host = self._host
        unshown = {name: one for name, one in self._looked.items() if one.face is None}
        host.unshown = {name: one.why for name, one in unshown.items()}
        parts: dict[str, str] = {}
        what = ""
        if self._sanitizes:
            for name, one in unshown.items():
                part = f"text of tool {name} of {one.tool.plugin}"
                parts[part] = f"no model sees this tool: {one.why}"
        elif unshown:
            names = sorted(f"{name} ({one.tool.plugin})" for name, one in unshown.items())
            what = f"no model sees {', '.join(names)}: {UNSANITIZED}"
        host.standing(PART).note(what)
        self._told = host.standing.turned(self._told, parts)

    @property
    def _sanitizes(self) -> bool:
        return self._host.hooks.implemented(hookspecs.sanitize_card)

    # -- one tool ----------------------------------------------------------

    async def _look_at(self, tool: Tool) -> _Looked:
        if not self._sanitizes:
            allowed = self._host.settings.context.unsanitized == "allow"
            return _Looked(tool, tool) if allowed else _Looked(tool, None, UNSANITIZED)
        prose: dict[str, str] = {}
        bound: dict[str, str] = {}
        try:
            _gather(tool.schema, "the schema", prose, bound)
            description = await self._clean(tool, tool.description, "its description")
            shown = {text: await self._clean(tool, text, at) for text, at in prose.items()}
            # Together as well: a model reads all of it, wherever an order is cut in two.
            together = " ".join(dict.fromkeys((tool.description, *prose)))
            await self._clean(tool, together, "all that it says of itself")
            await self._unchanged(tool, {tool.name: "its name", **bound})
        except _UnfitError as error:
            return _Looked(tool, None, str(error))
        except RecursionError:
            return _Looked(tool, None, "its schema is nested too deep to be looked at")
        if description == tool.description and all(one == other for one, other in shown.items()):
            return _Looked(tool, tool)
        schema = frozen_json(_with(tool.schema, shown))
        return _Looked(tool, replace(tool, description=description, schema=schema))

    async def _unchanged(self, tool: Tool, texts: Mapping[str, str]) -> None:
        """Refuse a tool with names or values that cannot be shown as they are.

        A model must write them as the check of arguments wants them, so that none is cleaned.
        """
        together = " ".join(texts)
        with suppress(_UnfitError):
            if _same(await self._clean(tool, together, ""), together):
                return
        for text, at in texts.items():
            if not _same(await self._clean(tool, text, at), text):
                raise _UnfitError(f"{at} holds what no model may see: {text!r}")
        # No single one of them: what they say in a row.
        await self._clean(tool, together, "all that its schema names")

    async def _clean(self, tool: Tool, text: str, at: str) -> str:
        if not text:
            return text
        verdict = await self._host.sanitize(
            Card(
                id=f"tool:{tool.name}",
                text=text,
                max_chars=len(text),
                source_ref=f"plugin {tool.plugin}",
                # An installed plugin is the operator's choice, and what a tool does often sounds
                # like a deed ("delete for good"): faint signs do not cost it its place.
                trusted=True,
            )
        )
        if not isinstance(verdict, Rejected):
            return verdict.text
        rules = ", ".join(sorted({finding.rule for finding in verdict.findings}))
        found = f" ({rules})" if rules and rules not in verdict.reason else ""
        raise _UnfitError(f"{at} was rejected: {verdict.reason}{found}")


def _same(shown: str, text: str) -> bool:
    # Other forms of the same letters, as in a unit, deceive nobody.
    return shown in (text, normalize("NFKC", text))


def _gather(value: object, at: str, prose: dict[str, str], bound: dict[str, str]) -> None:
    """Collect the texts of a schema, each with where it stands: what is said, what binds."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            bound.setdefault(key, f"{key!r} in {at}")
            _gather_at(key, inner, at, prose, bound)
    elif isinstance(value, list | tuple):
        for inner in value:
            _gather(inner, at, prose, bound)
    elif isinstance(value, str):
        bound.setdefault(value, at)


def _gather_at(
    key: str, value: object, at: str, prose: dict[str, str], bound: dict[str, str]
) -> None:
    where = f"{at}.{key}" if at != "the schema" else key
    texts: Iterable[object] = value if isinstance(value, list | tuple) else (value,)
    for text in texts:
        if key in PROSE and isinstance(text, str):
            prose.setdefault(text, where)
        else:
            _gather(text, where, prose, bound)


def _with(value: Any, shown: Mapping[str, str], key: str = "") -> Any:
    """Return a schema with its prose as it is shown."""
    if isinstance(value, Mapping):
        return {name: _with(inner, shown, name) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [
            shown.get(inner, inner)
            if isinstance(inner, str) and key in PROSE
            else _with(inner, shown)
            for inner in value
        ]
    return shown.get(value, value) if isinstance(value, str) and key in PROSE else value
