"""Whatever a request's headers hold, at most one credential is read from them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from multidict import CIMultiDict, CIMultiDictProxy

from hookgate.core.domain.errors import StartError, WireError
from hookgate.core.gateway.access.credentials import (
    FORMS,
    MAX_CREDENTIAL,
    check_forms,
    read_credential,
)

NAMES = ("Authorization", "X-Api-Key", "Cookie", "Sec-WebSocket-Protocol", "X-Other")
PIECES = (
    *("Bearer ", "bearer.", "Basic ", "s=", "session=", "hookgate", ",", ";", " ", "=", '"'),
    *("secret", "a" * 9, "\t", "é", "\x00", "\udcff", "%00", "x" * 5000),
)
HEADERS = st.lists(
    st.tuples(
        st.sampled_from(NAMES),
        st.lists(st.sampled_from(PIECES) | st.text(max_size=8), max_size=6).map("".join),
    ),
    max_size=5,
)
TAKEN = st.sets(st.sampled_from((*FORMS, "cookie:session", "cookie:s")), min_size=1)


def headers(*pairs: tuple[str, str]) -> CIMultiDictProxy[str]:
    return CIMultiDictProxy(CIMultiDict(pairs))


@given(HEADERS, TAKEN)
def test_what_is_read_is_one_well_formed_credential_of_a_form_that_is_taken(
    pairs: list[tuple[str, str]], forms: set[str]
) -> None:
    try:
        found = read_credential(headers(*pairs), forms)
    except WireError as error:
        assert error.data["code"] == "unauthorized"
        assert not any(len(value) > 20 and value in str(error) for _, value in pairs)
        return
    if found is None:
        return
    form = f"cookie:{found.name}" if found.kind == "cookie" else found.kind
    assert form in forms
    assert len(found.value) <= MAX_CREDENTIAL
    assert found.value.isascii()
    assert all("!" <= letter <= "~" for letter in found.value)
    assert any(found.value in value for _, value in pairs)
    assert not found.value or found.value not in repr(found).partition("value")[2]


@given(st.text(alphabet=st.characters(min_codepoint=0x21, max_codepoint=0x7E), min_size=1))
def test_a_right_value_is_read_as_it_is(value: str) -> None:
    for name, text in (("Authorization", f"Bearer {value}"), ("x-api-key", value)):
        found = read_credential(headers((name, text)), FORMS)
        assert found is not None
        assert found.value == value


@pytest.mark.parametrize(
    ("cookie", "value"),
    [
        ("session=abc", "abc"),
        ("a=1; session=abc; b=2", "abc"),
        ('session="abc"', "abc"),
        ("session=a=b", "a=b"),
        ("Session=abc", None),
        ("xsession=abc", None),
        ("session", None),
        ("session=", None),
        ("session=a b", ""),
    ],
)
def test_a_cookie_is_read_by_its_exact_name(cookie: str, value: str | None) -> None:
    found = read_credential(headers(("Cookie", cookie)), ("cookie:session",))

    assert (None if found is None else found.value) == value


def test_a_second_cookie_of_the_name_is_one_too_many() -> None:
    with pytest.raises(WireError, match="more than one"):
        read_credential(headers(("Cookie", "session=mine; session=theirs")), ("cookie:session",))


def test_cookies_that_a_route_does_not_name_are_nothing_to_it() -> None:
    given = headers(("Cookie", "session=abc"), ("Authorization", "Bearer k"))

    found = read_credential(given, FORMS)

    assert found is not None
    assert (found.kind, found.value) == ("bearer", "k")


@pytest.mark.parametrize("forms", ["bearer", (), ("basic",), ("cookie:",), ("cookie:a b",), (7,)])
def test_forms_that_cannot_be_are_named(forms: object) -> None:
    with pytest.raises(StartError, match="credential"):
        check_forms(forms)  # type: ignore[arg-type]
