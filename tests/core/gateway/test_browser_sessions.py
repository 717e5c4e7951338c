"""Sessions of browsers: they stand for the credential that was shown, no longer and no wider."""

from __future__ import annotations

import asyncio
import re
from contextlib import AsyncExitStack
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.builtin_plugins.turns import TurnedClock, make_host
from tests.core.gateway.test_authenticate import ALICE, Keys, model
from tests.core.gateway.test_route_options import Compat
from tests.support.script import until
from tests.support.wire import Served, bearer, serving, tokens

from hookgate.core.domain.errors import StoreError, WireError
from hookgate.core.domain.ports import CLOCK, SWITCHES
from hookgate.core.domain.turn import Principal
from hookgate.core.gateway.access.browser import (
    ENDED_SWITCH,
    MAX_ENDED,
    SESSION_SECONDS,
    SESSIONS_SWITCH,
    WHOSE,
    BrowserSessions,
)
from hookgate.core.gateway.access.tokens import DEAF_SECONDS, Token, TokenBook
from hookgate.core.hooks.tasks import Expiry
from hookgate.sessions import FileSwitches

OWN = {"Sec-Fetch-Site": "same-origin"}
PATH = "/v1/session"


async def log_in(served: Served, token: str, **more: Any) -> dict[str, str]:
    """Log in; return the headers of a page of the gateway's own from then on."""
    url = served.url + PATH
    async with served.http.post(url, json={"token": token}, headers=OWN, **more) as answer:
        assert answer.status == 200, await answer.text()
        cookie = answer.headers["Set-Cookie"]
    served.http.cookie_jar.clear()
    return {**OWN, "Cookie": cookie.partition(";")[0]}


def name_of(page: dict[str, str]) -> str:
    """Return the name of the cookie of a session."""
    return page["Cookie"].partition("=")[0]


async def status_of(served: Served, page: dict[str, str]) -> int:
    """Return the status of a question that any token may ask."""
    return (await served.get("/v1/status", headers=page))[0]


async def logged_out(served: Served, page: dict[str, str]) -> int:
    """Log out; return the status."""
    async with served.http.delete(served.url + PATH, headers=page) as answer:
        return answer.status


# -- what it stands for --------------------------------------------------------------------------


async def test_a_session_is_the_principal_of_its_token_on_every_face() -> None:
    section, made = tokens(ann={"scopes": ["read"]})
    async with serving(wire=section) as served:
        page = await log_in(served, made["ann"])
        who = {"principal": "token:ann", "scopes": ["read"]}
        status, shown = await served.get(PATH, headers=page)
        assert (status, {name: shown[name] for name in who}) == (200, who)
        assert await status_of(served, page) == 200
        operation = "/v1/operations/token.revoke"
        status, refused = await served.post(operation, {"name": "ann"}, headers=page)
        assert (status, refused["error"]["data"]["code"]) == (403, "forbidden")
        async with served.socket(headers=page) as socket:
            assert socket.heard[0]["params"]["principal"] == "token:ann"
            assert socket.heard[0]["params"]["scopes"] == ["read"]


async def test_no_script_of_a_page_and_no_other_site_gets_at_the_cookie() -> None:
    section, made = tokens(ann={})
    section["trusted_proxies"] = ["127.0.0.1"]
    async with serving(wire=section) as served:

        async def cookie(**headers: str) -> str:
            body, more = {"token": made["ann"]}, {**OWN, **headers}
            async with served.http.post(served.url + PATH, json=body, headers=more) as answer:
                assert answer.status == 200
                assert made["ann"] not in answer.headers["Set-Cookie"]
                return answer.headers["Set-Cookie"]

        plain, _, attributes = (await cookie()).partition(";")
        assert re.match(r"hookgate-session-[0-9a-f]{12}=v1\.", plain)
        assert attributes.strip() == f"Path=/; Max-Age={SESSION_SECONDS}; HttpOnly; SameSite=Strict"
        forwarded = {"X-Forwarded-Proto": "https", "X-Forwarded-For": "192.0.2.1"}
        secured = await cookie(**forwarded)
        assert re.match(r"__Host-hookgate-[0-9a-f]{12}=v1\.", secured)
        assert secured.endswith("; Secure")
        # What came over TLS counts there alone.
        value = secured.partition(";")[0]
        page = {**OWN, "Cookie": value, **forwarded}
        assert await status_of(served, page) == 200
        assert await status_of(served, {**OWN, "Cookie": value}) == 401
        assert await status_of(served, {**OWN, "Cookie": plain, **forwarded}) == 401


@pytest.mark.parametrize(
    "told",
    [{}, {"Sec-Fetch-Site": "cross-site"}, {"Origin": "https://evil.example"}],
    ids=["nothing", "cross-site", "origin"],
)
async def test_a_page_of_another_site_gets_nothing_by_a_session(told: dict[str, str]) -> None:
    section, made = tokens(ann={})
    async with serving(wire={**section, "allowed_origins": ["https://evil.example"]}) as served:
        page = await log_in(served, made["ann"])
        foreign = {"Cookie": page["Cookie"], **told}
        assert await status_of(served, foreign) == 403
        with pytest.raises(aiohttp.WSServerHandshakeError):
            async with served.socket(headers=foreign):
                raise AssertionError("it was let in")
        async with served.http.delete(served.url + PATH, headers=foreign) as answer:
            assert answer.status == 403
        assert await status_of(served, page) == 200


async def test_a_route_of_a_plugin_takes_a_session_where_it_says_so() -> None:
    section, made = tokens(ann={})
    for forms, status in ((("bearer",), 401), (("bearer", "session"), 200)):
        plugin = Compat(credentials=forms)
        async with serving(model(), plugin, wire=section) as served:
            page = await log_in(served, made["ann"])
            async with served.http.get(f"{served.url}/compat/chat", headers=page) as answer:
                assert answer.status == status


async def test_what_a_plugin_knows_is_asked_again_each_time() -> None:
    keys = Keys(k_alice=ALICE)
    async with serving(model(), keys) as served:
        page = await log_in(served, "k_alice")
        status, who = await served.get(PATH, headers=page)
        assert (status, who["principal"]) == (200, ALICE.id)
        asked = len(keys.asked)
        keys.keys.clear()
        assert await status_of(served, page) == 401
        assert len(keys.asked) == asked + 1


# -- when it ends --------------------------------------------------------------------------------


async def test_it_ends_with_its_token_at_once() -> None:
    section, made = tokens(ops={"scopes": ["operate", "read"]}, ann={})
    async with serving(wire=section) as served:
        page = await log_in(served, made["ann"])
        async with served.socket(headers=page) as socket:
            closed = asyncio.ensure_future(socket.closed())
            body = {"name": "ann"}
            await served.post("/v1/operations/token.revoke", body, **bearer(made["ops"]))
            assert await closed == 1008
        assert await status_of(served, page) == 401


async def test_a_token_of_the_same_name_is_not_the_one_that_was_shown(tmp_path: Path) -> None:
    first, made = tokens(ann={})
    async with serving(wire=first, home=tmp_path) as served:
        page = await log_in(served, made["ann"])
    second, _ = tokens(ann={})
    async with serving(wire=second, home=tmp_path) as served:
        assert await status_of(served, page) == 401
    async with serving(wire=first, home=tmp_path) as served:
        assert await status_of(served, page) == 200


async def test_it_lasts_twelve_hours_after_it_was_shown_last_and_no_longer_than_its_token() -> None:
    clock = TurnedClock()
    expires = (clock.now() + timedelta(hours=30)).isoformat()
    section, made = tokens(ann={"expires": expires})
    async with serving(wire=section) as served:
        served.gate.host.provide(CLOCK, clock)
        page = await log_in(served, made["ann"])
        for _ in range(2):
            clock.advance(SESSION_SECONDS - 1)
            async with served.http.get(served.url + PATH, headers=page) as answer:
                assert answer.status == 200
                ends = datetime.fromisoformat((await answer.json())["expires"])
                late = ends - clock.now() - timedelta(seconds=SESSION_SECONDS)
                assert abs(late) < timedelta(seconds=2)
                cookie = answer.headers["Set-Cookie"].partition(";")[0]
            served.http.cookie_jar.clear()
            before, page = page, {**OWN, "Cookie": cookie}
        clock.advance(2)
        assert await status_of(served, before) == 401
        assert await status_of(served, page) == 200
        clock.advance(7 * 3600)
        assert await status_of(served, page) == 401


async def test_gateways_of_one_host_name_leave_each_other_their_cookies(tmp_path: Path) -> None:
    section, made = tokens(ann={})
    async with AsyncExitStack() as stack:
        one, same, other = [
            await stack.enter_async_context(serving(wire=section)) for _ in range(3)
        ]
        switches = FileSwitches(tmp_path)
        for each in (one, same):
            each.gate.host.provide(SWITCHES, switches)
        here, there = await log_in(one, made["ann"]), await log_in(other, made["ann"])
        assert name_of(here) == name_of(await log_in(same, made["ann"])) != name_of(there)
        # A browser sends both to each: to it, ports of a host are one.
        both = {**OWN, "Cookie": f"{here['Cookie']}; {there['Cookie']}"}
        assert [await status_of(each, both) for each in (one, same, other)] == [200, 200, 200]
        assert await logged_out(other, both) == 204
        assert [await status_of(each, both) for each in (one, same, other)] == [200, 200, 401]


async def test_a_socket_ends_with_its_session_and_lasts_as_long_as_that_is_shown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = TurnedClock()
    section, made = tokens(ann={})
    monkeypatch.setattr(Expiry, "LOOK", 0.01)
    looks: list[Expiry] = []
    look = Expiry._look
    monkeypatch.setattr(Expiry, "_look", lambda self: (looks.append(self), look(self)))
    async with serving(wire=section) as served:
        served.gate.host.provide(CLOCK, clock)
        page = await log_in(served, made["ann"])
        async with served.socket(headers=page) as socket:
            clock.advance(SESSION_SECONDS - 1)
            async with served.http.get(served.url + PATH, headers=page) as answer:
                assert answer.status == 200
            clock.advance(SESSION_SECONDS - 1)
            looked = len(looks)
            await until(lambda: len(looks) > looked + 1)
            assert await socket.result("ping") == {"pong": True}
            clock.advance(2)
            assert await socket.closed() == 1008
        with pytest.raises(aiohttp.WSServerHandshakeError):
            async with served.socket(headers=page):
                raise AssertionError("it was let in")


async def test_logging_out_ends_it_everywhere_and_closes_its_sockets(tmp_path: Path) -> None:
    section, made = tokens(ann={})
    switches = FileSwitches(tmp_path)
    async with serving(wire=section) as here, serving(wire=section) as there:
        for one in (here, there):
            one.gate.host.provide(SWITCHES, switches)
        page, other = await log_in(here, made["ann"]), await log_in(here, made["ann"])
        assert await status_of(there, page) == 200
        async with here.socket(headers=page) as mine, there.socket(headers=page) as far:
            closed = asyncio.gather(mine.closed(), far.closed())
            async with there.http.delete(there.url + PATH, headers=page) as answer:
                assert answer.status == 204
                assert "Max-Age=0" in answer.headers["Set-Cookie"]
            assert await closed == [1008, 1008]
        for one in (here, there):
            assert await status_of(one, page) == 401
            assert await status_of(one, other) == 200
        # Logging out twice, or with what never was a session, takes the cookie back all the same.
        for cookie in (page["Cookie"], f"{name_of(page)}=junk"):
            headers = {**OWN, "Cookie": cookie}
            async with here.http.delete(here.url + PATH, headers=headers) as answer:
                assert answer.status == 204


async def test_what_is_remembered_of_ended_sessions_is_bounded_and_none_comes_back() -> None:
    section, made = tokens(ann={})
    async with serving(wire=section) as served:
        sessions = served.server.gate.sessions
        page = await log_in(served, made["ann"])
        for number in range(MAX_ENDED + 1):
            await sessions.end(f"{number:016x}{number:016x}")
        assert await status_of(served, page) == 401
        held = (await served.gate.host[SWITCHES].get(ENDED_SWITCH)).value
        assert len(held) <= MAX_ENDED
        assert await status_of(served, await log_in(served, made["ann"])) == 200


async def test_logging_out_with_an_older_cookie_ends_what_was_renewed_for_as_long_as_it_lasts() -> (
    None
):
    clock = TurnedClock()
    section, made = tokens(ann={})
    async with serving(wire=section) as served:
        served.gate.host.provide(CLOCK, clock)
        mine, other = await log_in(served, made["ann"]), await log_in(served, made["ann"])
        clock.advance(SESSION_SECONDS - 60)
        async with served.http.get(served.url + PATH, headers=mine) as answer:
            taken = {**OWN, "Cookie": answer.headers["Set-Cookie"].partition(";")[0]}
        served.http.cookie_jar.clear()
        assert await logged_out(served, mine) == 204
        clock.advance(120)
        # What is over is forgotten when another session is ended.
        other = await log_in(served, made["ann"])
        assert await logged_out(served, other) == 204
        assert await status_of(served, taken) == 401


async def test_logging_out_ends_it_also_while_nobody_knows_its_credential() -> None:
    keys = Keys(k_alice=ALICE)
    async with serving(model(), keys) as served:
        page = await log_in(served, "k_alice")
        keys.keys.clear()
        assert await logged_out(served, page) == 204
        keys.keys["k_alice"] = ALICE
        assert await status_of(served, page) == 401


async def test_logging_out_says_so_where_it_does_not() -> None:
    section, made = tokens(ann={})
    async with serving(wire=section) as served:
        page = await log_in(served, made["ann"])
        both = {**page, "Cookie": f"{page['Cookie']}; {name_of(page)}=junk"}
        assert await logged_out(served, both) == 401
        assert await status_of(served, page) == 200


async def test_a_session_is_found_among_several_headers_of_cookies() -> None:
    section, made = tokens(ann={})
    async with serving(wire=section) as served:
        page = await log_in(served, made["ann"])
        headers = [("Cookie", "theme=dark"), *page.items()]
        async with served.http.get(served.url + PATH, headers=headers) as answer:
            assert answer.status == 200


async def test_who_logs_out_again_and_again_ends_no_sessions_of_others() -> None:
    clock = TurnedClock()
    section, made = tokens(ann={}, bob={})
    async with serving(wire=section) as served:
        served.gate.host.provide(CLOCK, clock)
        sessions, switches = served.server.gate.sessions, served.gate.host[SWITCHES]
        other = await log_in(served, made["bob"])
        page, left = await log_in(served, made["ann"]), await log_in(served, made["ann"])
        whose = (await sessions.read(page["Cookie"].partition("=")[2])).id[:WHOSE]
        assert await logged_out(served, page) == 204
        async with served.socket(headers=left) as socket:
            for number in range(MAX_ENDED):
                await sessions.end(f"{whose}{number:016x}")
            assert await socket.closed() == 1008
        assert list((await switches.get(ENDED_SWITCH)).value) == [whose]
        assert await status_of(served, page) == await status_of(served, left) == 401
        assert await status_of(served, other) == 200
        # She logs in again at once, and what was ended does not come back.
        again = await log_in(served, made["ann"])
        assert await status_of(served, again) == 200
        clock.advance(SESSION_SECONDS - 60)
        assert await status_of(served, page) == await status_of(served, left) == 401
        assert await status_of(served, again) == 200


async def test_where_nobody_can_read_which_were_ended_no_session_counts() -> None:
    section, made = tokens(ann={})
    async with serving(wire=section) as served:
        switches = served.gate.host[SWITCHES]
        await switches.put(ENDED_SWITCH, ["junk"], version=0)
        assert (await served.post(PATH, {"token": made["ann"]}))[0] == 503


# -- what is refused -----------------------------------------------------------------------------


@given(
    st.one_of(
        st.text(max_size=200),
        st.from_regex(
            r"v1\.[0-9a-f]{32}\.[0-9]{1,12}\.[tc]\.[A-Za-z0-9_-]{1,40}\.[0-9a-f]{64}",
            fullmatch=True,
        ),
    ),
    st.integers(0, 150),
)
async def test_nothing_that_was_made_up_opens_a_session(
    tmp_path_factory: pytest.TempPathFactory, value: str, place: int
) -> None:
    home = tmp_path_factory.getbasetemp()
    token = Token("ann", b"d" * 32, Principal.owner())
    sessions = BrowserSessions(make_host(home), TokenBook((token,), home))
    cookie, _ = await sessions.issue("ann", "")
    assert (await sessions.read(cookie)).token is token
    changed = "0" if cookie[place : place + 1] != "0" else "1"
    for guess in (value, cookie[:-1], cookie + "0", cookie[:place] + changed + cookie[place + 1 :]):
        with pytest.raises(WireError, match="is not known, or has ended"):
            await sessions.read(guess)


async def test_a_wrong_login_says_what_is_wrong_and_counts(tmp_path: Path) -> None:
    section, made = tokens(ann={})
    wire = {**section, "limits": {"attempts_per_minute": 3}}
    async with serving(wire=wire) as served:
        for body in ({}, {"token": 7}, {"token": made["ann"], "more": 1}):
            assert (await served.post(PATH, body))[0] == 400
        assert (await served.post(PATH, data=b'{"token": "x"}', json=None))[0] == 415
        assert (await served.post(PATH, {"token": "x" * 20_000}))[0] == 413
        foreign = {"Origin": "https://evil.example"}
        assert (await served.post(PATH, {"token": made["ann"]}, headers=foreign))[0] == 403
        assert (await served.get(PATH))[0] == 401
        for _ in range(3):
            assert (await served.post(PATH, {"token": "wrong"}))[0] == 401
        assert (await served.post(PATH, {"token": "wrong"}))[0] == 429
        await log_in(served, made["ann"])


async def test_nobody_logs_in_where_no_token_is_needed() -> None:
    async with serving() as served:
        status, who = await served.get(PATH)
        assert (status, who["principal"], who["expires"]) == (200, "loopback", None)
        # What is left in the browser of another time shuts no owner out.
        name = await served.server.gate.sessions.cookie(secure=False)
        assert await status_of(served, {**OWN, "Cookie": f"{name}=v1.x"}) == 200


async def test_a_session_of_a_token_that_went_shuts_no_owner_out(tmp_path: Path) -> None:
    section, made = tokens(ann={})
    keys = Keys(k_alice=ALICE)
    switches = FileSwitches(tmp_path)
    async with serving(model(), keys, wire=section) as served:
        served.gate.host.provide(SWITCHES, switches)
        of_token = await log_in(served, made["ann"])
    async with serving(model(), keys) as served:
        served.gate.host.provide(SWITCHES, switches)
        of_key = await log_in(served, "k_alice")
        assert (await served.get(PATH, headers=of_token))[1]["principal"] == "loopback"
        # Who came by a key is who that says, or nobody.
        assert (await served.get(PATH, headers=of_key))[1]["principal"] == "key:alice"
        keys.keys.clear()
        assert await status_of(served, of_key) == 401


async def test_without_its_key_or_word_of_the_others_no_session_counts(tmp_path: Path) -> None:
    section, made = tokens(ann={})
    async with serving(wire=section, home=tmp_path) as served:
        switches = served.gate.host[SWITCHES]
        page = await log_in(served, made["ann"])
        switches.behind = lambda: DEAF_SECONDS + 1  # type: ignore[method-assign]
        assert await status_of(served, page) == 503
        switches.behind = lambda: 0.0  # type: ignore[method-assign]
        async with served.socket(headers=page) as socket:
            closed = asyncio.ensure_future(socket.closed())
            known = await switches.get(SESSIONS_SWITCH)
            await switches.put(SESSIONS_SWITCH, "no key", version=known.version)
            assert await closed == 1008
        assert await status_of(served, page) == 401
        await switches.put(SESSIONS_SWITCH, "ab" * 32, version=known.version + 1)
        page = await log_in(served, made["ann"])
        async with served.socket(headers=page) as socket:
            await switches.put(SESSIONS_SWITCH, "cd" * 32, version=known.version + 2)
            assert await socket.closed() == 1008
    async with serving(wire=section, home=tmp_path) as served:

        async def fails(name: str) -> Any:
            raise StoreError("the disk is gone")

        served.gate.host[SWITCHES].get = fails  # type: ignore[method-assign]
        assert await status_of(served, page) == 503
        assert (await served.post(PATH, {"token": made["ann"]}))[0] == 503


async def test_a_credential_and_a_session_at_once_are_one_too_many() -> None:
    section, made = tokens(ann={})
    async with serving(wire=section) as served:
        page = await log_in(served, made["ann"])
        both = {**page, **bearer(made["ann"])["headers"]}
        assert await status_of(served, both) == 401


async def test_a_session_that_ends_while_it_comes_in_is_closed() -> None:
    section, made = tokens(ann={})
    async with serving(wire=section) as served:
        sessions, page = served.server.gate.sessions, await log_in(served, made["ann"])
        identify = served.server.gate.identify

        async def slowly(*arguments: Any) -> Any:
            caller = await identify(*arguments)
            assert caller is not None
            await sessions.end(caller.session)
            return caller

        served.server.gate.identify = slowly  # type: ignore[method-assign]
        async with served.socket(headers=page) as socket:
            assert await socket.closed() == 1008
