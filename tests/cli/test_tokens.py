from __future__ import annotations

import hashlib
import stat
import tomllib

import pytest
from tests.cli.conftest import CommandLine


def test_a_token_is_made_and_its_digest_goes_into_the_settings(hookgate: CommandLine) -> None:
    data = hookgate("token", "new", "laptop", "--json").json
    assert data["digest"] == hashlib.sha256(data["token"].encode()).hexdigest()
    section = tomllib.loads(data["toml"])["gateway"]["tokens"]["laptop"]
    assert section == {"digest": data["digest"], "scopes": ["chat", "read"]}
    hookgate.config(data["toml"])
    (row,) = hookgate("token", "list", "--json").json["tokens"]
    assert (row["name"], row["revoked"], row["expires"]) == ("laptop", False, None)


def test_a_token_is_listed_with_its_end(hookgate: CommandLine) -> None:
    text = hookgate("token", "new", "laptop", "--json").json["toml"]
    hookgate.config(f'{text}expires = "2020-01-31T12:00:00Z"\n')
    assert "2020-01-31" in hookgate("token", "list").out


def test_a_token_is_shown_once_and_not_stored(hookgate: CommandLine) -> None:
    ran = hookgate("token", "new", "my laptop", "--scope", "operate")
    (token,) = [word for word in ran.out.split() if word.startswith("hgt_")]
    assert '[gateway.tokens."my laptop"]' in ran.out
    assert 'scopes = ["operate"]' in ran.out
    home = hookgate.home / ".hookgate"
    assert not any(token in path.read_text() for path in home.rglob("*") if path.is_file())


def test_a_kept_token_is_readable_for_its_user_alone(hookgate: CommandLine) -> None:
    first = hookgate("token", "new", "a", "--keep", "--json").json["token"]
    second = hookgate("token", "new", "b", "--keep", "--json").json["token"]
    path = hookgate.home / ".hookgate" / "keys" / "hookgate_token"
    assert path.read_text().strip() == second != first
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


@pytest.mark.parametrize("words", [["x", "--scope", "admin"], [""], ['a"b'], ["a\\b"], ["a\nb"]])
def test_a_scope_or_name_that_cannot_be_is_refused(hookgate: CommandLine, words: list[str]) -> None:
    assert hookgate("token", "new", *words).code == 2


def test_a_token_is_revoked_by_the_command_of_its_operation(hookgate: CommandLine) -> None:
    hookgate.config(hookgate("token", "new", "laptop", "--json").json["toml"])
    assert hookgate("token", "revoke", "laptop").code == 0
    (row,) = hookgate("token", "list", "--json").json["tokens"]
    assert row["revoked"] is True
    ran = hookgate("token", "revoke", "laptpo")
    assert ran.code == 1
    assert "token.list" in ran.err
