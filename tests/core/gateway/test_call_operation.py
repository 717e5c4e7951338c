"""An operation that is called within the gateway: as over the wire."""

from __future__ import annotations

import pytest
from tests.support.wire import serving

from hookgate import Principal, WireError
from hookgate.clients import call_operation


@pytest.mark.parametrize(
    ("name", "params", "code"),
    [
        ("tokens.revoke", {}, "method_not_found"),
        ("token.revoke", {"name": "ann"}, "forbidden"),
        ("operation.list", {"names": []}, "invalid_params"),
    ],
)
async def test_scope_schema_and_errors_are_those_of_the_wire(
    name: str, params: dict[str, object], code: str
) -> None:
    reader = Principal(id="reader", scopes=frozenset({"read"}))
    async with serving() as served:
        host = served.gate.host
        with pytest.raises(WireError) as caught:
            await call_operation(host, reader, name, params, path="test")
        assert caught.value.data["code"] == code
        listed = await call_operation(host, reader, "operation.list", {}, path="test")
        names = {one.name for one in listed.operations}
        assert "operations.list" in names
        # What a principal may not call is not listed for it: it is the caller that asks.
        assert "token.revoke" not in names
