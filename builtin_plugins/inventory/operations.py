"""The operations of the inventory: looking at it, and changing what may be changed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field

from hookgate import Invocation, NotAllowedError, OperationModel, Principal, TurnError, operation
from hookgate.builtin_plugins.inventory.record import CapabilityRecord, affordance
from hookgate.builtin_plugins.inventory.service import Inventory
from hookgate.builtin_plugins.inventory.sources import Action, CapabilityInstall
from hookgate.kit.modules import on_demand

if TYPE_CHECKING:
    from hookgate.builtin_plugins.inventory import models
    from hookgate.builtin_plugins.inventory.writing.writes import Writes
else:
    models = on_demand("hookgate.builtin_plugins.inventory.models")


_FIELDS = tuple(item.name for item in fields(CapabilityRecord))


def shown(record: CapabilityRecord, short: str) -> models.ShownRecord:
    """Return a record together with what may be done to it, and what it is called in short."""
    offered = affordance(record)
    values = {name: getattr(record, name) for name in _FIELDS}
    return models.ShownRecord(**values, buttons=offered.buttons, note=offered.note, short=short)


class InventoryOperations:
    """What agents can use, in every runtime: list, show, switch and install it."""

    def __init__(self, inventory: Callable[[], Inventory], writes: Callable[[], Writes]) -> None:
        self._inventory = inventory
        self._writes = writes

    # -- looking -----------------------------------------------------------

    @operation("inventory.list", rest=("GET", "/api/capabilities"))
    async def listed(
        self, invocation: Invocation, params: models.RecordListParams
    ) -> models.ListedRecords:
        """List what agents can use, in every runtime, and how the sources stand.

        Example:
            hookgate inventory list --runtime native --kind tool
        """
        merged = await self._inventory().read(refresh=params.refresh)
        page, total, more = merged.page(
            params, invocation.principal, after=params.after, limit=params.limit
        )
        return models.ListedRecords.model_construct(
            records=tuple(shown(record, merged.short(record)) for record in page),
            sources=merged.sources,
            total=total,
            next=page[-1].id if more else "",
        )

    @operation("inventory.show")
    async def show(
        self,
        invocation: Invocation,
        id: Annotated[str, Field(min_length=1, max_length=models.ID_CHARS)],
    ) -> models.ChangedRecord:
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
    async def enable(
        self, invocation: Invocation, params: models.SwitchParams
    ) -> models.ChangedRecord:
        """Enable a capability, for all or for one agent."""
        return await self._changed("enable", invocation, params.id, agent=params.agent)

    @operation("inventory.disable", scope="operate")
    async def disable(
        self, invocation: Invocation, params: models.SwitchParams
    ) -> models.ChangedRecord:
        """Disable a capability, for all or for one agent; nothing of it is taken away.

        Example:
            hookgate inventory disable native/http_get --agent ada
        """
        return await self._changed("disable", invocation, params.id, agent=params.agent)

    @operation("inventory.approve", scope="operate")
    async def approve(
        self, invocation: Invocation, params: models.ApproveParams
    ) -> models.ChangedRecord:
        """Accept a tool that has changed, by the digest that was looked at."""
        return await self._changed("approve", invocation, params.id, digest=params.digest)

    @operation("inventory.install", scope="operate")
    async def install(
        self, invocation: Invocation, params: models.InstallParams
    ) -> models.ChangedRecord:
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
    async def change(
        self, invocation: Invocation, params: models.ChangeParams
    ) -> models.ChangedRecord:
        """Install, enable, disable or approve a capability, as the operation of its name does."""
        given = params.model_dump(exclude_unset=True, exclude={"action"})
        handlers: dict[str, tuple[type[OperationModel], Any]] = {
            "install": (models.InstallParams, self.install),
            "enable": (models.SwitchParams, self.enable),
            "disable": (models.SwitchParams, self.disable),
            "approve": (models.ApproveParams, self.approve),
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
        result: models.ChangedRecord = await handler(invocation, read)
        return result

    # -- within ------------------------------------------------------------

    async def _named(self, text: str, principal: Principal) -> str:
        try:
            return await self._inventory().named(text, principal)
        except ValueError as error:
            raise TurnError.invalid(error, "say which one by one of these") from None

    async def _changed(
        self, action: Action, invocation: Invocation, text: str, **more: str
    ) -> models.ChangedRecord:
        by = invocation.principal
        record_id = await self._named(text, by)
        return self._result(await self._writes().change(action, record_id, by, **more))

    def _result(self, record: CapabilityRecord) -> models.ChangedRecord:
        short = self._inventory().merged.short(record)
        return models.ChangedRecord.model_construct(record=shown(record, short))


def _short(error: ValueError) -> str:
    from pydantic import ValidationError

    if not isinstance(error, ValidationError):
        return str(error)
    return "; ".join(
        f"{'.'.join(map(str, one['loc'])) or 'it'}: {one['msg']}" for one in error.errors()[:4]
    )
