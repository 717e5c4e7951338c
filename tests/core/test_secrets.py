from __future__ import annotations

import base64
import json
import os
import re
import threading
from pathlib import Path
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from hookgate.core.domain.errors import ConfigError
from hookgate.core.settings.key_file import MAX_KEY_FILE, read_key_file
from hookgate.core.settings.schema import Settings
from hookgate.core.settings.secret_store import (
    MASK,
    MAX_FOLLOWED,
    MAX_HELD,
    MIN_MASKED,
    SecretStore,
    masked_json,
    redact_json,
)


def store(home: Path, environ: dict[str, str] | None = None, **configured: str) -> SecretStore:
    settings = Settings.model_validate({"home": home, "secrets": configured})
    return SecretStore(settings, environ or {})


def key_file(home: Path, name: str, text: str, mode: int = 0o600) -> Path:
    folder = home / "keys"
    folder.mkdir(mode=0o700, exist_ok=True)
    path = folder / name
    path.write_text(text)
    path.chmod(mode)
    return path


def refused(path: Path) -> str:
    with pytest.raises(ConfigError) as caught:
        read_key_file(path)
    return str(caught.value)


# -- where a secret comes from ---------------------------------------------


def test_the_environment_comes_before_the_key_file_and_that_before_the_settings(
    tmp_path: Path,
) -> None:
    environ = {"MODEL_KEY": "from-environment"}
    secrets = store(tmp_path, environ, model_key="from-settings")
    path = key_file(tmp_path, "model_key", "from-key-file\n")
    assert secrets.get("model_key") == "from-environment"
    environ.clear()
    assert secrets.get("model_key") == "from-key-file"
    path.unlink()
    assert secrets.get("model_key") == "from-settings"


def test_a_variable_may_name_a_file_that_holds_the_secret(tmp_path: Path) -> None:
    key_file(tmp_path, "model_key", "from-home")
    named = key_file(tmp_path, "mounted", "from-mount\n")
    environ = {"MODEL_KEY_FILE": str(named)}
    secrets = store(tmp_path, environ)
    assert secrets.get("model_key") == "from-mount"
    assert secrets.redact("from-mount") == MASK
    named.write_text("rotated-value")
    assert secrets.get("model_key") == "rotated-value"
    environ["MODEL_KEY"] = "from-environment"
    assert secrets.get("model_key") == "from-environment"


@pytest.mark.parametrize(
    ("named", "says"),
    [
        ("{keys}/absent", "no such file"),
        ("{keys}/open", "mode 0644"),
        ("keys/mounted", "a whole path"),
    ],
)
def test_a_file_that_a_variable_names_and_that_cannot_be_used_is_named_with_the_variable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, named: str, says: str
) -> None:
    key_file(tmp_path, "mounted", "value-1")
    key_file(tmp_path, "open", "value-1", 0o644)
    key_file(tmp_path, "model_key", "from-home")
    monkeypatch.chdir(tmp_path)
    path = named.format(keys=tmp_path / "keys")
    with pytest.raises(ConfigError, match=says) as told:
        store(tmp_path, {"MODEL_KEY_FILE": path}).get("model_key")
    assert "MODEL_KEY_FILE in the environment names it" in str(told.value)
    assert path in str(told.value)


def test_a_credential_of_systemd_comes_between_the_environment_and_the_key_file(
    tmp_path: Path,
) -> None:
    key_file(tmp_path, "model_key", "from-home")
    (tmp_path / "run").mkdir()
    credentials = key_file(tmp_path / "run", "model_key", "from-systemd", 0o400).parent
    environ = {"CREDENTIALS_DIRECTORY": str(credentials)}
    secrets = store(tmp_path, environ)
    assert secrets.get("model_key") == "from-systemd"
    assert secrets.get("other_key") is None
    environ["MODEL_KEY"] = "from-environment"
    assert secrets.get("model_key") == "from-environment"


def test_a_name_that_nothing_gives_is_none(tmp_path: Path) -> None:
    assert store(tmp_path).get("absent") is None
    assert store(tmp_path / "no" / "such" / "home").get("absent") is None


def test_an_empty_variable_or_file_counts_as_absent(tmp_path: Path) -> None:
    key_file(tmp_path, "empty", " \n")
    assert store(tmp_path, {"EMPTY": ""}, empty="from-settings").get("empty") == "from-settings"


def test_dots_and_dashes_of_a_name_are_underscores_in_its_variable(tmp_path: Path) -> None:
    assert store(tmp_path, {"ACME_API_KEY": "value-1"}).get("acme.api-key") == "value-1"


def test_a_replaced_key_file_counts_at_once(tmp_path: Path) -> None:
    secrets = store(tmp_path)
    key_file(tmp_path, "rotating", "first-value")
    assert secrets.get("rotating") == "first-value"
    key_file(tmp_path, "rotating", "second-value")
    assert secrets.get("rotating") == "second-value"
    assert secrets.redact("first-value second-value") == f"{MASK} {MASK}"


@pytest.mark.parametrize("name", ["", "../settings", "a/b", ".hidden", "-x", "a b", "a\0b"])
def test_a_name_that_could_leave_the_folder_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(ConfigError, match="found a secret called"):
        store(tmp_path).get(name)


def test_a_source_of_a_plugin_comes_between_the_environment_and_the_key_files(
    tmp_path: Path,
) -> None:
    key_file(tmp_path, "model_key", "from-home")
    environ = {"OTHER_KEY": "from-environment"}
    secrets = store(tmp_path, environ)
    vault = {"model_key": "from-vault", "other_key": "from-vault"}
    undo = secrets.add_source("put it into the vault", vault.get)
    assert secrets.get("model_key") == "from-vault"
    assert secrets.get("other_key") == "from-environment"
    assert secrets.redact("from-vault") == MASK
    assert secrets.how_to_set("model_key")[:2] == ("set MODEL_KEY", "put it into the vault")
    undo()
    assert secrets.get("model_key") == "from-home"


def test_a_secret_that_changes_is_noticed_once_wherever_it_comes_from(tmp_path: Path) -> None:
    first = key_file(tmp_path, "of_home", "value-1")
    named = key_file(tmp_path, "by_path", "value-1")
    vault: dict[str, str] = {}
    secrets, heard = store(tmp_path), list[str]()
    secrets.add_source("put it into the vault", vault.get)
    undo = secrets.watch(heard.append)
    for name in ("of_home", "of_vault", "never"):
        secrets.get(name)
    secrets.read(named)
    assert secrets.changed() == ([], "")

    first.write_text("value-2")
    named.write_text("value-3")
    vault["of_vault"] = "value-4"
    # Somebody has read it meanwhile: that is not to be told from nobody having noticed.
    assert secrets.get("of_home") == "value-2"
    names, wrong = secrets.changed()
    assert (sorted(names), wrong) == (sorted(["of_home", "of_vault", str(named)]), "")
    assert secrets.changed() == ([], "")
    assert "value" not in secrets.redact("value-2 value-3 value-4")
    secrets.tell(names)
    assert heard == names
    undo()
    secrets.tell(names)
    assert heard == names


def test_a_secret_that_cannot_be_read_for_a_while_stays_as_it_was_and_is_told(
    tmp_path: Path,
) -> None:
    path = key_file(tmp_path, "model_key", "value-1")
    secrets = store(tmp_path)
    secrets.get("model_key")
    path.chmod(0o644)
    names, wrong = secrets.changed()
    assert names == []
    assert f"chmod 600 {path}" in wrong
    path.chmod(0o600)
    assert secrets.changed() == ([], "")
    path.unlink()
    assert secrets.changed() == (["model_key"], "")


def test_of_very_many_secrets_that_are_asked_for_a_bounded_number_is_followed(
    tmp_path: Path,
) -> None:
    secrets, vault = store(tmp_path), dict[str, str]()
    secrets.add_source("put it into the vault", vault.get)
    for number in range(MAX_FOLLOWED + 10):
        secrets.get(f"name{number}")
        vault[f"name{number}"] = f"value-{number}"
    names, _ = secrets.changed()
    assert len(names) == MAX_FOLLOWED


# -- key files -------------------------------------------------------------


@pytest.mark.parametrize("mode", [0o600, 0o400])
def test_a_key_file_of_ours_is_read_without_white_space_around(tmp_path: Path, mode: int) -> None:
    assert read_key_file(key_file(tmp_path, "key", "  value-1\r\n", mode)) == "value-1"


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o660, 0o700, 0o604, 0o666, 0o4600])
def test_a_key_file_of_another_mode_is_refused_with_the_command_that_mends_it(
    tmp_path: Path, mode: int
) -> None:
    path = key_file(tmp_path, "key", "value-1", mode)
    message = refused(path)
    assert f"mode {mode:04o}" in message
    assert f"chmod 600 {path}" in message
    assert "value-1" not in message


def test_a_key_file_of_another_user_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = key_file(tmp_path, "key", "value-1")
    theirs = os.geteuid()
    if not theirs:  # what is root's may be a secret that was mounted
        theirs = 4242
        os.chown(path, theirs, -1)
    monkeypatch.setattr(os, "geteuid", lambda: theirs + 1)
    message = refused(path)
    assert f"owned by user {theirs}" in message
    assert f"chown {theirs + 1}" in message


def test_a_folder_that_others_may_write_to_is_refused(tmp_path: Path) -> None:
    path = key_file(tmp_path, "key", "value-1")
    path.parent.chmod(0o777)
    assert f"chmod 700 {path.parent}" in refused(path)


def test_a_link_that_leads_out_of_its_folder_is_not_followed(tmp_path: Path) -> None:
    target = key_file(tmp_path, "target", "value-1")
    link = tmp_path / "keys" / "link"
    link.symlink_to(target)
    assert "a link" in refused(link)
    with pytest.raises(ConfigError):
        store(tmp_path).get("link")


def test_a_folder_or_a_pipe_is_refused_without_waiting(tmp_path: Path) -> None:
    folder = tmp_path / "keys"
    folder.mkdir(mode=0o700)
    (folder / "folder").mkdir()
    os.mkfifo(folder / "pipe", mode=0o600)
    assert "not a file" in refused(folder / "folder")
    assert "not a file" in refused(folder / "pipe")


def test_a_file_that_is_no_key_is_refused(tmp_path: Path) -> None:
    assert "more than" in refused(key_file(tmp_path, "long", "x" * (MAX_KEY_FILE + 1)))
    path = key_file(tmp_path, "binary", "")
    path.write_bytes(b"\xff\xfe")
    assert "not UTF-8" in refused(path)


def test_a_missing_key_file_is_an_error_where_it_was_asked_for(tmp_path: Path) -> None:
    assert "no such file" in refused(tmp_path / "absent")
    assert read_key_file(tmp_path / "absent", missing_ok=True) is None


# -- masking ---------------------------------------------------------------


def test_what_was_found_or_configured_or_registered_is_masked(tmp_path: Path) -> None:
    secrets = store(tmp_path, {"A_KEY": "environment-1"}, b_key="settings-1")
    key_file(tmp_path, "c_key", "key-file-1")
    secrets.get("a_key")
    secrets.get("c_key")
    secrets.register("registered-1")
    text = "environment-1, settings-1, key-file-1, registered-1"
    assert secrets.redact(text) == ", ".join([MASK] * 4)


def test_text_without_a_secret_stays_as_it_is(tmp_path: Path) -> None:
    assert store(tmp_path).redact("nothing is known") == "nothing is known"
    assert store(tmp_path, key="canary-123456").redact("nothing here") == "nothing here"


def test_a_value_too_short_to_tell_from_ordinary_text_is_not_masked(tmp_path: Path) -> None:
    secrets = store(tmp_path)
    secrets.register("x" * (MIN_MASKED - 1))
    secrets.register("  \n ")
    assert secrets.redact("xxxxx and white   \n space") == "xxxxx and white   \n space"


def test_of_two_secrets_that_overlap_neither_shows_its_rest(tmp_path: Path) -> None:
    secrets = store(tmp_path, first="abcdef123", second="123uvwxyz", third="abcdef123uvw-longer")
    assert secrets.redact("<abcdef123uvwxyz>") == f"<{MASK}>"
    assert secrets.redact("<abcdef123uvw-longer>") == f"<{MASK}>"


def test_a_key_of_several_lines_is_masked_line_by_line_too(tmp_path: Path) -> None:
    line = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASC"
    secrets = store(tmp_path, pem=f"-----BEGIN KEY-----\n{line}\n-----END KEY-----\n")
    assert line not in secrets.redact(f"    | {line}")


secret_values = st.text(st.characters(exclude_categories=["Cs"]), min_size=MIN_MASKED, max_size=40)


@given(secret_values, st.binary(max_size=5), st.text(max_size=10))
def test_no_form_of_a_secret_gets_through(value: str, before: bytes, around: str) -> None:
    value = value.strip()
    assume(len(value) >= MIN_MASKED)
    secrets = SecretStore(Settings(home=Path("/nonexistent")), {})
    secrets.register(value)
    raw = value.encode()
    forms = [
        value,
        json.dumps(value)[1:-1],
        json.dumps(value, ensure_ascii=False)[1:-1],
        repr(value)[1:-1],
        repr(raw)[2:-1],
        json.dumps(json.dumps(value))[3:-3],
        quote(value),
        quote(value, safe=""),
        quote_plus(value),
        re.sub("%..", lambda match: match.group().lower(), quote(value, safe="")),
        raw.hex(),
    ]
    for form in forms:
        assert form not in secrets.redact(f"{around}{form}{around}").replace(MASK, "\0")
    for encode in (base64.b64encode, base64.urlsafe_b64encode):
        encoded = encode(before + raw + before).decode()
        assert MASK in secrets.redact(f"Basic {encoded}")


@given(st.lists(secret_values, min_size=1, max_size=6), st.data())
def test_of_any_secrets_in_any_text_none_remains(values: list[str], data: st.DataObject) -> None:
    secrets = SecretStore(Settings(home=Path("/nonexistent")), {})
    known = [value.strip() for value in values if len(value.strip()) >= MIN_MASKED]
    for value in values:
        secrets.register(value)
    parts = data.draw(st.lists(st.sampled_from(values) | st.text(max_size=8), max_size=8))
    # What lies between two masks is what was let through.
    for rest in secrets.redact("".join(parts)).split(MASK):
        assert not any(value in rest for value in known)


# -- streams -----------------------------------------------------------------


def streamed(secrets: SecretStore, pieces: list[str]) -> tuple[str, int]:
    """Return what goes out of a stream, and the most that was held back at once."""
    out, held, most = [], "", 0
    for piece in pieces:
        said, held = secrets.settle(held + piece)
        out.append(said)
        most = max(most, len(held))
    return "".join((*out, secrets.redact(held))), most


@given(st.lists(secret_values, min_size=1, max_size=4), st.data())
def test_a_secret_in_pieces_is_masked_however_it_is_cut(
    values: list[str], data: st.DataObject
) -> None:
    secrets = SecretStore(Settings(home=Path("/nonexistent")), {})
    known = [value.strip() for value in values if len(value.strip()) >= MIN_MASKED]
    for value in values:
        secrets.register(value)
    parts = st.lists(st.sampled_from([*values, *known]) | st.text(max_size=8), max_size=8)
    text = "".join(data.draw(parts))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=12)))
    pieces = [text[one:other] for one, other in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    out, _ = streamed(secrets, pieces)
    assert not any(value in rest for rest in out.split(MASK) for value in known)
    assert (MASK in out) == (MASK in secrets.redact(text))
    if not any(value in text for value in known) and secrets.redact(text) == text:
        assert out == text


def test_ordinary_text_is_not_held_back_and_a_beginning_only_until_it_is_none(
    tmp_path: Path,
) -> None:
    secrets = store(tmp_path, key="canary-0123456789")
    assert secrets.settle("hello world") == ("hello world", "")
    assert secrets.settle("the can") == ("the ", "can")
    assert secrets.settle("can" + "did") == ("candid", "")
    assert secrets.settle("canary-0123" + "456789 is it") == (f"{MASK} is it", "")
    assert SecretStore(Settings(home=tmp_path), {}).settle("canary") == ("canary", "")


def test_a_secret_that_is_followed_by_the_beginning_of_another_is_masked_whole(
    tmp_path: Path,
) -> None:
    secrets = store(tmp_path, one="abcdefgh", two="fghijklm", three="abcdefghijklmnop")
    assert streamed(secrets, ["x abcdefgh", " y"])[0] == f"x {MASK} y"
    assert streamed(secrets, list("x abcdefghijklm y"))[0] == f"x {MASK} y"
    assert streamed(secrets, list("x abcdefghijklmnop y"))[0] == f"x {MASK} y"


def test_what_begins_secrets_over_and_over_is_held_back_within_bounds(tmp_path: Path) -> None:
    secrets = store(tmp_path, key="a" * 8)
    out, most = streamed(secrets, ["aaaa"] * 600)
    assert most <= MAX_HELD * len(("a" * 8).encode().hex() * 2)
    assert "a" * 8 not in out


@pytest.mark.parametrize(
    "value", ["canary-012345", 'a "quoted" \\ one', "schlüssel-wörter", "123456"]
)
def test_json_is_masked_text_by_text_and_stays_json(tmp_path: Path, value: str) -> None:
    secrets = store(tmp_path, key=value)
    data = {"text": f"<{value}>", value: [value, {"n": 123456}], "other": "plain"}
    for ascii_only in (True, False):
        sent = json.dumps(data, ensure_ascii=ascii_only).encode()
        seen = json.loads(masked_json(secrets, sent))
        assert seen == {"text": f"<{MASK}>", MASK: [MASK, {"n": 123456}], "other": "plain"}
    plain = b'{"text": "nothing here"}'
    assert masked_json(secrets, plain) is plain


def test_threads_may_register_and_redact_at_once(tmp_path: Path) -> None:
    secrets = store(tmp_path)
    seen: list[str] = []

    def work(number: int) -> None:
        for count in range(20):
            value = f"canary-{number}-{count}"
            secrets.register(value)
            seen.append(secrets.redact(f"<{value}>"))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seen == [f"<{MASK}>"] * 80


class Looked(SecretStore):
    """Counts how often it is asked."""

    looks = 0

    def redact(self, text: str) -> str:
        self.looks += 1
        return super().redact(text)


def test_a_record_is_looked_at_once_and_masked_text_by_text_where_it_holds_a_secret(
    tmp_path: Path,
) -> None:
    secrets = Looked(Settings(home=tmp_path), {})
    secrets.register("hunter2hunter2")
    plain = {"turn": "t", "n": 1, "deep": {"list": ["a", ("b", None)], "x": 1.5}, "s": {7: "y"}}
    clean = redact_json(secrets, plain)
    assert clean == {**plain, "deep": {"list": ["a", ["b", None]], "x": 1.5}}
    assert secrets.looks == 1
    assert clean["deep"] is not plain["deep"]  # whoever wrote it may go on with it
    told = redact_json(secrets, {**plain, "hunter2hunter2": [{"to": "x hunter2hunter2 y"}]})
    assert told == {**clean, MASK: [{"to": f"x {MASK} y"}]}


def test_nothing_is_masked_across_two_texts(tmp_path: Path) -> None:
    secrets = SecretStore(Settings(home=tmp_path), {})
    secrets.register("first line of it\nsecond line of it")
    told = redact_json(secrets, {"a": "ends with first line", "b": " of it\nsecond line o"})
    assert told == {"a": "ends with first line", "b": " of it\nsecond line o"}
