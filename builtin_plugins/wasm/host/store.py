"""``store``: keys and values under a quota, each owner's for itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hookgate import StoreError
from hookgate.builtin_plugins.wasm.host.calls import GuestCall, HostRefusal

if TYPE_CHECKING:
    from hookgate.builtin_plugins.wasm.tables import Values
    from hookgate.builtin_plugins.wasm.wire import StoreRequest

NO_STORE = (
    "there is no store here: the operator has to enable the plugin `storage`, as it is by itself"
)


async def serve_store(values: Values | None, call: GuestCall, asked: StoreRequest) -> Any:
    """Get, set, delete or list what the guest keeps; return what it is answered.

    What is kept carries the taint of the call; what is got adds its own to it.

    Raises:
        HostRefusal: The namespace is not granted, is full, or there is no store.
    """
    if values is None:
        raise HostRefusal("unavailable", NO_STORE)
    grants = call.granted.stores
    name = asked.namespace or (next(iter(grants)) if len(grants) == 1 else "")
    if name not in grants:
        raise HostRefusal(
            "not_granted", f"found the namespace {name[:80]!r}, expected {' or '.join(grants)}"
        )
    place = (call.plugin, name, call.owner)
    try:
        match asked.op:
            case "get":
                kept = await values.get(*place, asked.key)
                call.taint |= kept.taint if kept else frozenset()
                return kept.value if kept else None
            case "list":
                keys, taint = await values.keys(*place, asked.key)
                call.taint |= taint
                return list(keys)
            case "delete":
                return await values.delete(*place, asked.key)
            case "set":
                await _set(values, call, asked, place, grants[name].quota)
    except StoreError as error:
        raise HostRefusal("unavailable", f"the store: {error}") from error
    return None


async def _set(
    values: Values,
    call: GuestCall,
    asked: StoreRequest,
    place: tuple[str, str, str],
    quota: int,
) -> None:
    # SQLAlchemy takes long to import; where there is a store it is there.
    from hookgate.builtin_plugins.wasm.tables import Kept, QuotaError

    if asked.value is None or not asked.key:
        missing = "value" if asked.value is None else "key"
        raise HostRefusal("bad_request", f"found no {missing}, expected one to set")
    if "\0" in asked.key + asked.value:
        raise HostRefusal("bad_request", "found a zero character, which no database keeps")
    try:
        await values.set(
            *place, asked.key, Kept(asked.value, call.before | call.taint), quota=quota
        )
    except QuotaError as error:
        raise HostRefusal(
            "limit", f"the namespace {place[1]} would hold {error}: delete something first"
        ) from None
