"""Grants: what may be said, what it allows, and what it proves."""

from __future__ import annotations

import httpx
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hookgate.builtin_plugins.wasm.packages.grants import (
    METHODS,
    EnvGrant,
    FolderGrant,
    Granted,
    GrantError,
    HttpGrant,
    SecretGrant,
    StoreGrant,
    contradictions,
    flags_of,
    parse_grant,
)
from hookgate.core.domain.descriptors import FLAG_NAMES
from hookgate.kit.url_grants import NotGrantedError

API = "https://api.example.com"


def test_the_short_form_of_http_stands_for_all_of_a_host():
    grant = parse_grant("http:api.example.com")
    assert isinstance(grant, HttpGrant)
    assert (grant.methods, grant.pattern.text) == (METHODS, "https://api.example.com/*")
    assert parse_grant("http:api.example.com:8443").pattern.port == 8443  # type: ignore[union-attr]


def test_http_names_methods_scheme_port_and_path():
    grant = parse_grant("http:GET,POST http://api.example.com:8080/v1/*")
    assert isinstance(grant, HttpGrant)
    assert grant.methods == ("GET", "POST")
    pattern = grant.pattern
    assert (pattern.scheme, pattern.host, pattern.port, pattern.path, pattern.prefix) == (
        "http",
        "api.example.com",
        8080,
        "/v1/",
        True,
    )


def test_the_other_grants():
    store = parse_grant("store:notes=4MB")
    assert isinstance(store, StoreGrant)
    assert (store.namespace, store.quota) == ("notes", 4 * 1024 * 1024)
    env, folder = parse_grant("env:TZ"), parse_grant("fs-read:/srv/data")
    assert isinstance(env, EnvGrant)
    assert isinstance(folder, FolderGrant)
    assert (env.name, str(folder.folder)) == ("TZ", "/srv/data")
    secret = parse_grant(f"secret:weather_key -> header,path @ {API}/*")
    assert isinstance(secret, SecretGrant)
    assert (secret.name, secret.places) == ("weather_key", ("header", "path"))


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "unknown grant ''"),
        ("htp:api.example.com", "did you mean `http`"),
        ("logs", "did you mean `log`"),
        ("log:x", "expected `log` alone"),
        ("http", "expected `http:` and what of it"),
        ("http:", "does not read as scheme"),
        ("http:*", "does not read as scheme"),
        ("http:GTE api.example.com", "did you mean `GET`"),
        ("http:get api.example.com", "did you mean `GET`"),
        ("http:GET,GET api.example.com", "twice"),
        ("http:CONNECT api.example.com", "found the method"),
        ("http:https://user@api.example.com/*", "does not read as scheme"),
        ("http:https://api.example.com/v1*", "star"),
        ("http:127.1", "IPv4"),
        ("store:", "expected store:NAMESPACE"),
        ("store:Notes", "lower-case"),
        ("store:notes=1GB", "such as 200KB"),
        ("store:notes=65MB", "at most 64MB"),
        ("store:notes=", "such as 200KB"),
        ("env:", "expected env:NAME"),
        ("env:*", "expected env:NAME"),
        ("env:OPENAI_API_KEY", "name is that of a secret"),
        ("fs-read://proc/self", "absolute path"),
        (f"http:GET {API}/v1/*?*", "behind one fixed path"),
        (f"http:GET {API}/v1?a=b", "does not read as scheme"),
        ("fs-read:data", "absolute path"),
        ("fs-read:/", "not the root"),
        ("fs-read:/srv/../etc", "without"),
        ("fs-read:/srv/", "slash at its end"),
        ("fs-read:/proc/self", "nothing below"),
        ("secret:key", "expected secret:NAME"),
        (f"secret:key -> query @ {API}/*", "never the query"),
        (f"secret:key -> header,header @ {API}/*", "at most once"),
        ("secret:key -> header @ *", "does not read as scheme"),
        ("x" * 501, "501 characters"),
    ],
)
def test_what_is_no_grant_is_refused_and_told(text: str, told: str):
    with pytest.raises(GrantError, match=told):
        parse_grant(text)


def test_a_grant_or_a_namespace_twice_is_refused():
    with pytest.raises(GrantError, match="'log' granted twice"):
        Granted.parse(["log", "clock", "log"])
    with pytest.raises(GrantError, match="'notes' granted twice"):
        Granted.parse(["store:notes", "store:notes=1MB"])
    with pytest.raises(GrantError, match="found 65 grants"):
        Granted.parse([f"env:N{number}" for number in range(65)])


GRAMMAR = st.one_of(
    st.text(max_size=60),
    st.from_regex(
        r"(http|store|env|fs-read|secret|log|clock|random)(:[ -~]{0,40})?", fullmatch=True
    ),
    st.builds(
        "{}:{} {}".format,
        st.just("http"),
        st.lists(st.sampled_from([*METHODS, "get", "TRACE", ""]), max_size=3).map(",".join),
        st.sampled_from(["api.example.com", f"{API}/v1/*", "http://[::1]:80/*", "a b", "//x", "*"]),
    ),
)


@given(GRAMMAR)
@example("http:GET http://[::ffff:127.0.0.1]/*")
@example("secret:a -> header @ \x00")
@example("fs-read:/\ud800")
def test_any_text_is_a_grant_or_refused_and_a_grant_says_what_was_written(text: str):
    try:
        grant = parse_grant(text)
    except GrantError as error:
        assert str(error)
    else:
        assert grant.text == text
        assert parse_grant(grant.text) == grant


# -- what they allow -------------------------------------------------------------------


def granted(*texts: str) -> Granted:
    return Granted.parse(texts)


def test_a_request_needs_a_grant_for_its_url_with_its_method():
    some = granted(f"http:GET {API}/v1/*", f"http:POST {API}/v1/items?*")
    assert some.check("GET", httpx.URL(f"{API}/v1/a")).path == "/v1/a"
    assert some.check("POST", httpx.URL(f"{API}/v1/items?q=1")).query == "q=1"
    with pytest.raises(NotGrantedError, match="method is POST: expected GET"):
        some.check("POST", httpx.URL(f"{API}/v1/a"))
    with pytest.raises(NotGrantedError, match="one of GET, HEAD"):
        some.check("get", httpx.URL(f"{API}/v1/a"))
    with pytest.raises(NotGrantedError, match=r"expected https://api\.example\.com/v1/"):
        some.check("GET", httpx.URL("https://evil.example/v1/a"))


def test_a_secret_has_its_places_and_its_hosts():
    some = granted(f"secret:key -> header @ {API}/v1/*")
    assert some.inserts("key", "header", httpx.URL(f"{API}/v1/a"))
    assert not some.inserts("key", "body", httpx.URL(f"{API}/v1/a"))
    assert not some.inserts("key", "header", httpx.URL(f"{API}/v2/a"))
    assert not some.inserts("other", "header", httpx.URL(f"{API}/v1/a"))


def test_imports_are_those_of_the_grants():
    assert granted().imports == frozenset()
    assert granted("log", "store:a", "http:x.example", "env:A").imports == {
        "log",
        "store",
        "http",
        "env",
    }
    assert granted("fs-read:/srv/x", f"secret:k -> body @ {API}/*").imports == frozenset()


# -- what they prove -------------------------------------------------------------------


def test_without_grants_all_five_flags_are_proven_false():
    flags = flags_of(granted("log", "clock"), {})
    assert flags.to_json() == dict.fromkeys(FLAG_NAMES, False)
    assert flags.proven == set(FLAG_NAMES)
    assert flags.ground("sends_externally") == "no grant http:"


def test_a_request_for_one_fixed_path_sends_and_reads_and_changes_nothing():
    flags = flags_of(granted("http:GET https://api.example.com/v1/towns"), {})
    assert flags.to_json() == {
        "reads_external_data": True,
        "writes_persistent_state": False,
        "sends_externally": True,
        "executes_privileged": False,
        "creates_autonomous_actions": False,
    }
    assert flags.proven == set(FLAG_NAMES)
    assert flags.ground("sends_externally") == "http:GET https://api.example.com/v1/towns"


@pytest.mark.parametrize(
    "grant",
    [
        "http:GET api.example.com",
        "http:GET,HEAD https://api.example.com/v1/*",
        "http:GET https://api.example.com/v1/send?*",
        "http:GET https://*.example.com/v1/towns",
        "http:GET,POST https://api.example.com/v1/towns",
    ],
)
def test_that_a_request_which_a_guest_has_written_changes_nothing_is_the_other_sides_word(
    grant: str,
):
    for name in ("writes_persistent_state", "creates_autonomous_actions"):
        some = granted("http:GET https://api.example.com/fixed", grant)
        assert flags_of(some, {}).standing(name) == "unknown"
        said = flags_of(some, {name: False})
        assert (said.get(name), said.standing(name)) == (False, "declared")
        assert contradictions(some, {name: True}) == []


def test_what_a_post_changes_elsewhere_is_not_proven():
    some = granted("http:POST api.example.com")
    assert flags_of(some, {}).standing("writes_persistent_state") == "unknown"
    declared = flags_of(some, {"writes_persistent_state": True})
    assert declared.standing("writes_persistent_state") == "declared"
    assert declared.standing("sends_externally") == "proven"
    assert flags_of(some, {}).get("creates_autonomous_actions") is None


def test_a_store_proves_that_it_writes_and_a_folder_that_it_reads():
    flags = flags_of(granted("store:notes", "fs-read:/srv/data"), {})
    assert flags.writes_persistent_state is True
    assert flags.ground("writes_persistent_state") == "store:notes"
    assert flags.reads_external_data is True
    assert flags.sends_externally is False


def test_what_the_grants_disprove_is_a_contradiction_either_way():
    some = granted("http:GET api.example.com")
    assert contradictions(some, {"sends_externally": True}) == []
    (wrong,) = contradictions(some, {"sends_externally": False})
    assert "`sends_externally = false` is declared, and the grants prove true" in wrong
    (wrong,) = contradictions(granted(), {"reads_external_data": True})
    assert "the grants prove false" in wrong
