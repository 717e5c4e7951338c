"""The operations of the inventory: looking at it, and changing what may be changed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Annotated, Any, Literal

from pydantic import Field

from hookgate import Invocation, NotAllowedError, OperationModel, Principal, TurnError, operation
from hookgate.builtin_plugins.inventory.multiplexer import SourceStatus
from hookgate.builtin_plugins.inventory.record import Button, CapabilityRecord, Kind, affordance
from hookgate.builtin_plugins.inventory.service import Inventory, RecordFilter
from hookgate.builtin_plugins.inventory.sources import Action, CapabilityInstall
from hookgate.builtin_plugins.inventory.switches import NATIVE
from hookgate.builtin_plugins.inventory.writing.writes import Writes

ID_CHARS = 2048


@dataclass(frozen=True, kw_only=True)
class ShownRecord(CapabilityRecord):
    """A record as it is shown: with what may be done to it.

    Attributes:
        buttons: What may be done; nothing that would be refused.
        note: What stands in the place of buttons.
        short: What can be typed in the place of the id, such as `codex/github`.
    """

    buttons: tuple[Button, ...] = ()
    note: str = ""
    short: str = ""


_FIELDS = tuple(item.name for item in fields(CapabilityRecord))


def shown(record: CapabilityRecord, short: str) -> ShownRecord:
    """Return a record together with what may be done to it, and what it is called in short."""
    offered = affordance(record)
    values = {name: getattr(record, name) for name in _FIELDS}
    return ShownRecord(**values, buttons=offered.buttons, note=offered.note, short=short)


class RecordListParams(RecordFilter):
    """Which records to list."""

    after: str = Field(default="", max_length=ID_CHARS)
    """The id behind which the page begins: `next` of the page before."""
    limit: int = Field(default=500, ge=1, le=5000)
    """How many records at most."""
    refresh: bool = False
    """Whether all runtimes are read now, however fresh what is known is."""


class ListedRecords(OperationModel):
    """Records, and how the sources stand that bring them."""

    records: tuple[ShownRecord, ...]
    """In the order of their ids."""
    sources: tuple[SourceStatus, ...]
    """Each source: one that is not `ok` could not be read, and its last good records are shown."""
    total: int
    """How many records there are in all, on all pages."""
    next: str
    """`after` of the next page; empty on the last one."""


class ChangedRecord(OperationModel):
    """What was changed, as it is now."""

    record: ShownRecord
    """The record."""


class _Named(OperationModel):
    id: str = Field(min_length=1, max_length=ID_CHARS)
    """Its id, as the list shows it; a short one such as `codex/github`; or how an id ends."""


class SwitchParams(_Named):
    """What to switch."""

    agent: str = Field(default="", max_length=512)
    """For this agent of the gateway alone; for all where it is left out."""


class ApproveParams(_Named):
    """What to approve."""

    digest: str = Field(min_length=1, max_length=64)
    """The digest that you have looked at; `hookgate tools changes` shows it."""


class _Install(OperationModel):
    agent: str = Field(default="", max_length=512)
    """For this agent, of any runtime; for everybody where it is left out."""
    description: str = Field(default="", max_length=2000)
    """What it does."""
    content: str = Field(default="", max_length=200_000, json_schema_extra={"file": True})
    """The text of a skill."""
    command: str = Field(default="", max_length=1000)
    """The command that starts a connector."""
    args: list[str] = Field(default_factory=list, max_length=64)
    """Its arguments."""
    env: dict[str, str] = Field(default_factory=dict, max_length=64)
    """Its environment."""
    url: str = Field(default="", max_length=2000)
    """The address of a connector."""
    via: str = Field(default=NATIVE, max_length=512)
    """The source that installs it."""
    runtime: str = Field(default="", max_length=512)
    """Passed over: the gateway finds out which runtime the agent belongs to."""


_KEY = r"^[A-Za-z0-9][A-Za-z0-9 ._/@-]{0,63}$"


class InstallParams(_Install):
    """What to install."""

    key: str = Field(pattern=_KEY)
    """What it will be called: 1 to 64 characters of `A-Za-z0-9 ._/@-`."""
    kind: Kind = "skill"
    """What it is."""


class ChangeParams(_Install):
    """Any change; what each takes is said by the operation of its name."""

    action: Literal["install", "enable", "disable", "approve"]
    """What to do."""
    id: str = Field(default="", max_length=ID_CHARS)
    """The record, for all but an install."""
    digest: str = Field(default="", max_length=64)
    """The digest that is approved."""
    key: str = Field(default="", max_length=64)
    """What is installed will be called so."""
    kind: Kind = "skill"
    """What is installed."""


class InventoryOperations:
    """What agents can use, in every runtime: list, show, switch and install it."""

    def __init__(self, inventory: Callable[[], Inventory], writes: Callable[[], Writes]) -> None:
        self._inventory = inventory
        self._writes = writes

    # -- looking -----------------------------------------------------------

    @operation("inventory.list", rest=("GET", "/api/capabilities"))
    async def listed(self, invocation: Invocation, params: RecordListParams) -> ListedRecords:
        """List what agents can use, in every runtime, and how the sources stand.

        Example:
            hookgate inventory list --runtime native --kind tool
        """
        merged = await self._inventory().read(refresh=params.refresh)
        page, total, more = merged.page(
            params, invocation.principal, after=params.after, limit=params.limit
        )
        return ListedRecords.model_construct(
            records=tuple(shown(record, merged.short(record)) for record in page),
            sources=merged.sources,
            total=total,
            next=page[-1].id if more else "",
        )

    @operation("inventory.show")
    async def show(
        self,
        invocation: Invocation,
        id: Annotated[str, Field(min_length=1, max_length=ID_CHARS)],
    ) -> ChangedRecord:
        """Show all that is known of one capability, and what may be done to it.

        Args:
            id: Its id, as the list shows it; a short one such as `codex/github`; or how an id ends.

        Example:
            hookgate inventory show codex/github
        """
        inventory, principal = self._inventory(), invocation.principal
        record = inventory.find(await self._named(id, principal))
        if record.agent_id is not None and not principal.may_use_agent(record.agent_id):
            raise NotAllowedError(f"{principal.id} may not speak to the agent {record.agent_id!r}")
        return self._result(record)

    # -- changing ----------------------------------------------------------

    @operation("inventory.enable", scope="operate")
    async def enable(self, invocation: Invocation, params: SwitchParams) -> ChangedRecord:
        """Enable a capability, for all or for one agent."""
        return await self._changed("enable", invocation, params.id, agent=params.agent)

    @operation("inventory.disable", scope="operate")
    async def disable(self, invocation: Invocation, params: SwitchParams) -> ChangedRecord:
        """Disable a capability, for all or for one agent; nothing of it is taken away.

        Example:
            hookgate inventory disable native/http_get --agent ada
        """
        return await self._changed("disable", invocation, params.id, agent=params.agent)

    @operation("inventory.approve", scope="operate")
    async def approve(self, invocation: Invocation, params: ApproveParams) -> ChangedRecord:
        """Accept a tool that has changed, by the digest that was looked at."""
        return await self._changed("approve", invocation, params.id, digest=params.digest)

    @operation("inventory.install", scope="operate")
    async def install(self, invocation: Invocation, params: InstallParams) -> ChangedRecord:
        """Install a capability, once it has passed the sanitizers and the scan.

        Example:
            hookgate inventory install tea --content @SKILL.md --agent ada
        """
        install = CapabilityInstall(
            key=params.key,
            kind=params.kind,
            agent_id=params.agent or None,
            description=params.description,
            content=params.content,
            command=params.command,
            args=tuple(params.args),
            env=dict(params.env),
            url=params.url,
        )
        by = invocation.principal
        return self._result(await self._writes().install(install, by, via=params.via))

    @operation(
        "inventory.change", scope="operate", rest=("POST", "/api/capabilities/{action}"), command=""
    )
    async def change(self, invocation: Invocation, params: ChangeParams) -> ChangedRecord:
        """Install, enable, disable or approve a capability, as the operation of its name does."""
        given = params.model_dump(exclude_unset=True, exclude={"action"})
        handlers: dict[str, tuple[type[OperationModel], Any]] = {
            "install": (InstallParams, self.install),
            "enable": (SwitchParams, self.enable),
            "disable": (SwitchParams, self.disable),
            "approve": (ApproveParams, self.approve),
        }
        model, handler = handlers[params.action]
        if params.action != "install":
            # Whose it is, the id says.
            given.pop("runtime", None)
        try:
            read = model.model_validate(given)
        except ValueError as error:
            raise TurnError.invalid(
                f"the parameters do not fit the action {params.action}: {_short(error)}",
                f"look at the operation inventory.{params.action}",
            ) from None
        result: ChangedRecord = await handler(invocation, read)
        return result

    # -- within ------------------------------------------------------------

    async def _named(self, text: str, principal: Principal) -> str:
        try:
            return await self._inventory().named(text, principal)
        except ValueError as error:
            raise TurnError.invalid(error, "say which one by one of these") from None

    async def _changed(
        self, action: Action, invocation: Invocation, text: str, **more: str
    ) -> ChangedRecord:
        by = invocation.principal
        record_id = await self._named(text, by)
        return self._result(await self._writes().change(action, record_id, by, **more))

    def _result(self, record: CapabilityRecord) -> ChangedRecord:
        short = self._inventory().merged.short(record)
        return ChangedRecord.model_construct(record=shown(record, short))


def _short(error: ValueError) -> str:
    from pydantic import ValidationError

    if not isinstance(error, ValidationError):
        return str(error)
    return "; ".join(
        f"{'.'.join(map(str, one['loc'])) or 'it'}: {one['msg']}" for one in error.errors()[:4]
    )
