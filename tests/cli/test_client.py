from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.cli.conftest import CommandLine, Served

from hookgate.cli.client import remote
from hookgate.core.gateway.access import auth
from hookgate.core.gateway.access.tokens import new_token


def guarded(hookgate: CommandLine) -> str:
    token, digest = new_token()
    hookgate.config(
        f'[gateway.tokens.ops]\ndigest = "{digest}"\nscopes = ["read", "operate", "chat"]\n'
    )
    return token


def test_the_token_of_the_environment_is_shown(
    hookgate: CommandLine, serve: Callable[[], Served]
) -> None:
    token = guarded(hookgate)
    serve()
    assert hookgate("call", "ping", HOOKGATE_TOKEN=token).code == 0
    hello = hookgate("turn", "hi", "--json", HOOKGATE_TOKEN=token)
    assert hello.json["ending"] == "done"


@pytest.mark.parametrize("keep", [[], ["--keep"]])
def test_tokens_for_others_lock_the_owners_own_commands_out_of_nothing(
    hookgate: CommandLine, serve: Callable[[], Served], keep: list[str]
) -> None:
    data = hookgate("token", "new", "phone", "--scope", "read", *keep, "--json").json
    hookgate.config(data["toml"])
    serve()
    assert hookgate("status").code == 0
    assert hookgate("reload").code == 0
    assert hookgate("turn", "what is 2*3?", "--json").json["ending"] == "done"


def test_by_an_address_that_is_not_loopback_the_owners_commands_need_a_token(
    hookgate: CommandLine, serve: Callable[[], Served], monkeypatch: pytest.MonkeyPatch
) -> None:
    data = hookgate("token", "new", "ops", "--scope", "read", "--json").json
    hookgate.config(data["toml"])
    serve()
    monkeypatch.setattr(remote, "is_loopback", lambda _: False)
    missing = hookgate("call", "ping")
    assert missing.code == 1
    assert "needs a token" in missing.err
    assert "HOOKGATE_TOKEN" in missing.err
    hookgate("token", "new", "other", "--keep")
    (hookgate.home / ".hookgate/keys/hookgate_token").write_text(data["token"])
    assert hookgate("call", "ping").code == 0


def test_what_the_owner_shows_is_not_taken_by_other_addresses_and_told_as_a_missing_token(
    hookgate: CommandLine, serve: Callable[[], Served], monkeypatch: pytest.MonkeyPatch
) -> None:
    guarded(hookgate)
    serve()
    monkeypatch.setattr(auth, "is_loopback", lambda _: False)
    ran = hookgate("call", "ping")
    assert (ran.code, "needs a token" in ran.err) == (1, True)


def test_a_token_that_is_wrong_is_an_error_that_says_what_to_do(
    hookgate: CommandLine, serve: Callable[[], Served]
) -> None:
    guarded(hookgate)
    serve()
    wrong = hookgate("call", "ping", HOOKGATE_TOKEN="hgt_wrong-token")
    assert wrong.code == 1
    assert "this token is not known" in wrong.err
    assert "hgt_wrong" not in wrong.err


def test_a_token_without_the_scope_is_told_which_one(
    hookgate: CommandLine, serve: Callable[[], Served]
) -> None:
    data = hookgate("token", "new", "reader", "--scope", "read", "--json").json
    hookgate.config(data["toml"])
    serve()
    ran = hookgate("reload", HOOKGATE_TOKEN=data["token"])
    assert ran.code == 1
    assert "expected 'operate'" in ran.err


def test_a_command_beyond_the_tokens_scopes_names_the_scope_and_is_no_unknown_one(
    hookgate: CommandLine, serve: Callable[[], Served]
) -> None:
    data = hookgate("token", "new", "talker", "--scope", "chat", "--json").json
    hookgate.config(data["toml"])
    serve()
    ran = hookgate("approvals", "list", HOOKGATE_TOKEN=data["token"])
    assert ran.code == 1
    assert "expected 'approve'" in ran.err
    assert "use a token with the scope `approve`" in ran.err
    rows = hookgate("commands", "--json", HOOKGATE_TOKEN=data["token"]).json["commands"]
    assert {"hookgate approvals list": "approve"}.items() <= {
        row["command"]: row["scope"] for row in rows
    }.items()


def test_what_does_not_work_as_it_should_is_said_at_every_command(
    hookgate: CommandLine, serve: Callable[[], Served]
) -> None:
    served = serve()
    served.gateway.host.degraded["storage"] = "the disk is on fire"
    assert "degraded: storage: the disk is on fire" in hookgate("tools", "list").err
    ran = hookgate("status")
    assert "the disk is on fire" in ran.out


def test_a_request_that_the_gateway_cannot_read_is_an_error_and_is_not_waited_for(
    hookgate: CommandLine, serve: Callable[[], Served]
) -> None:
    serve()
    ran = hookgate("audit", "list", "--limit", "99999999999999999999")
    assert (ran.code, ran.out) == (1, "")
    assert "found the integer 99999999999999999999" in ran.err


@pytest.mark.parametrize("where", [[], ["--local"]])
def test_a_streaming_operation_is_followed_to_its_end(
    hookgate: CommandLine, serve: Callable[[], Served], where: list[str]
) -> None:
    if not where:
        serve()
    params = '{"content": "what is 2*3?", "peer": "ada"}'
    ran = hookgate(*where, "call", "chat.send", "--params", params)
    events = [line for line in ran.out.splitlines() if line.startswith('{"event"')]
    assert '"event":"text"' in "".join(events)
    assert '{"event":"done"' in events[-1]
    assert "demo:cli:local:ada" in ran.out.splitlines()[-1]


def test_parameters_come_from_a_file_or_standard_input(hookgate: CommandLine) -> None:
    file = hookgate.home / "params.json"
    file.write_text('{"name": "ping"}')
    for given, stdin in (('{"name": "ping"}', ""), (f"@{file}", ""), ("-", '{"name": "ping"}')):
        data = hookgate("call", "operation.list", "--params", given, "--json", stdin=stdin).json
        assert [row["name"] for row in data["operations"]] == ["ping"]
    for wrong in ("{", "[]", f"@{file}x", '{"a":1,"a":2}'):
        assert hookgate("call", "operation.list", "--params", wrong).code == 2
