from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hookgate import EgressDeniedError, EgressFailedError
from hookgate.builtin_plugins.providers.failures import (
    from_egress,
    from_status,
    kind_of_status,
    message_of,
)

NOW = datetime(2026, 11, 21, 10, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b'{"error": {"type": "x", "message": "No"}}', "No"),
        (b'{"error": "No"}', "No"),
        (b'{"message": "No"}', "No"),
        (b'{"detail": [{"loc": [1], "msg": "No"}]}', "No"),
        (b'[{"error": {"message": "No"}}]', "No"),
        (b'{"a": 1}', '{"a": 1}'),
        (b"<html><b>Bad</b>\n gateway</html>", "Bad gateway"),
        (b"", ""),
        (b"\xff", "�"),
    ],
)
def test_an_error_body_is_boiled_down_to_its_message(body: bytes, message: str) -> None:
    assert message_of(body) == message


@given(st.binary(max_size=300) | st.text(alphabet='{}[]":,<>ae1 ').map(str.encode))
def test_any_body_gives_one_short_line(body: bytes) -> None:
    message = message_of(body)
    assert len(message) <= 400
    assert "\n" not in message


def test_a_body_of_brackets_is_read_in_no_time() -> None:
    assert message_of(b"<" * 65_536)
    assert message_of(b"[" * 65_536)


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (204, "malformed"),
        (301, "rejected"),
        (402, "rejected"),
        (405, "rejected"),
        (408, "timeout"),
        (409, "rejected"),
        (418, "rejected"),
        (520, "server"),
        (599, "server"),
    ],
)
def test_statuses_that_nobody_lists_have_a_kind_as_well(status: int, kind: str) -> None:
    assert kind_of_status(status) == kind


@pytest.mark.parametrize(
    ("status", "body", "code"),
    [
        (404, b'{"error": {"message": "x", "code": "model_not_found"}}', "unknown_model"),
        (404, b'{"error": {"type": "not_found_error", "message": "model: a"}}', "unknown_model"),
        (404, b'{"error": "model \'a\' not found, try pulling it first"}', "unknown_model"),
        (404, b'{"message": "The model `a` does not exist."}', "unknown_model"),
        (400, b'{"message": "Unknown model: a"}', "unknown_model"),
        (404, b"<html>not found</html>", "provider_failed"),
        (404, b'{"detail": "Not Found"}', "provider_failed"),
        (500, b'{"error": {"code": "model_not_found"}}', "provider_failed"),
    ],
)
def test_a_model_that_the_provider_does_not_have_is_told_from_a_wrong_address(
    status: int, body: bytes, code: str
) -> None:
    error = from_status("acme", status, {}, body, NOW)
    assert (error.kind == "rejected", error.code) == (status != 500, code)


def test_an_error_says_who_what_and_what_to_do() -> None:
    error = from_status("acme", 401, {}, b'{"error": {"message": "bad key"}}', NOW)
    assert str(error) == "acme answered with HTTP 401: bad key; check its API key"
    # What to do about one that is refused is its action, and the provider says why.
    error = from_status("acme", 400, {}, b'{"error": {"message": "`top_k` is above 40"}}', NOW)
    assert str(error) == "acme answered with HTTP 400: `top_k` is above 40"
    assert "base_url" in error.action
    error = from_status("acme", 429, {"retry-after": "3"}, b"", NOW)
    assert str(error) == "acme answered with HTTP 429 (asks to wait 3 s)"


def test_a_denied_way_out_is_no_failure_to_be_tried_again() -> None:
    error = from_egress("acme", EgressDeniedError("not granted"))
    assert error.kind == "rejected"
    assert not error.retryable


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("connect", "unreachable"),
        ("timeout", "timeout"),
        ("cut", "cut"),
        ("limit", "malformed"),
        ("protocol", "malformed"),
    ],
)
def test_each_failure_on_the_way_has_its_kind(kind: str, expected: str) -> None:
    assert from_egress("acme", EgressFailedError("x", kind=kind)).kind == expected  # type: ignore[arg-type]  # a parameter


def test_the_providers_name_is_said_once() -> None:
    error = from_egress("acme", EgressFailedError("provider acme: no connection", kind="connect"))
    assert str(error) == "acme cannot be reached: no connection"
