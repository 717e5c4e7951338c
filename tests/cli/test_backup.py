"""Copies of a home folder: made while a gateway runs, put back, and verified."""

from __future__ import annotations

import json
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from functools import cache
from pathlib import Path

import pytest
from tests.cli.conftest import CommandLine


def home_of(hookgate: CommandLine) -> Path:
    return hookgate.home / ".hookgate"


def said(home: Path) -> int:
    with closing(sqlite3.connect(home / "hookgate.db")) as connection:
        count: int = connection.execute("SELECT count(*) FROM storage_messages").fetchone()[0]
    return count


@cache
def made_once() -> Path:
    """Make a home by conversations, once: copies of it are as good."""
    hookgate = CommandLine(Path(tempfile.mkdtemp()))
    hookgate.config("[turn]\nmax_iterations = 7\n")
    home = home_of(hookgate)
    (home / "keys").mkdir(mode=0o700, exist_ok=True)
    (home / "keys" / "openai_api_key").write_text("sk-very-secret-0123\n")
    (home / "keys" / "openai_api_key").chmod(0o600)
    for text in ("what is 17*23?", "what time is it?"):
        assert hookgate("chat", text).code == 0
    return home


def filled(hookgate: CommandLine) -> Path:
    """Leave a conversation, a record of decisions, keys and settings; return the home."""
    return Path(shutil.copytree(made_once(), home_of(hookgate)))


def names(archive: Path) -> set[str]:
    with tarfile.open(archive) as file:
        return set(file.getnames())


ALWAYS = {"contents.json", "store.db", "audit.key", "audit.head", "config.toml"}


@pytest.mark.slow
@pytest.mark.parametrize("running", [pytest.param(True, marks=pytest.mark.slow), False])
def test_a_copy_is_put_back_into_an_empty_home_and_verifies(
    hookgate: CommandLine, serve: Callable[[], object], tmp_path: Path, running: bool
) -> None:
    home = filled(hookgate)
    before = said(home)
    if running:
        serve()
        assert hookgate("chat", "what is 2+2?").code == 0
        before = said(home)
    archive = tmp_path / "copy.tar"
    made = hookgate("backup", str(archive), "--json")
    assert made.code == 0, made.err
    assert names(archive) == ALWAYS
    assert archive.stat().st_mode & 0o777 == 0o600
    assert hookgate("chat", "said after the copy").code == 0

    other = CommandLine(tmp_path / "other")
    other.home.mkdir()
    back = other("restore", str(archive))
    assert back.code == 0, back.err
    fresh = home_of(other)
    assert said(fresh) == before < said(home)
    for name in ("hookgate.db", "audit.key", "audit.head", "config.toml"):
        assert (fresh / name).stat().st_mode & 0o777 == 0o600, name
    assert (fresh / "audit.key").read_bytes() == (home / "audit.key").read_bytes()
    checked = other("audit", "verify", "--json")
    assert checked.json["ok"], checked.out
    assert checked.json["rows"] > 0
    assert "max_iterations" in (fresh / "config.toml").read_text()
    assert other("chat", "it goes on").code == 0
    assert other("audit", "verify").code == 0


@pytest.mark.slow
def test_a_copy_is_rehearsed_elsewhere_and_nothing_of_ones_own_is_touched(
    hookgate: CommandLine, tmp_path: Path
) -> None:
    home = filled(hookgate)
    archive = tmp_path / "copy.tar"
    assert hookgate("backup", str(archive), "--with-keys").code == 0
    before = {path: path.read_bytes() for path in home.rglob("*") if path.is_file()}
    checked = hookgate("backup", "check", str(archive), "--json")
    assert checked.code == 0, checked.err
    assert checked.json["ok"]
    assert checked.json["audit"]["rows"] > 0
    assert "keys/openai_api_key" in checked.json["holds"]
    assert {row["plugin"] for row in checked.json["tables"]} >= {"storage", "audit"}
    after = {path: path.read_bytes() for path in home.rglob("*") if path.is_file()}
    assert after == before

    # A record that somebody has changed is found, although the copy is whole.
    with closing(sqlite3.connect(home / "hookgate.db")) as store:
        store.execute("UPDATE audit_entry SET outcome = 'allow!' WHERE seq = 1")
        store.commit()
    assert hookgate("backup", str(archive), "--force").code == 0
    checked = hookgate("backup", "check", str(archive))
    assert checked.code == 1
    assert "it cannot be relied on" in checked.out
    assert hookgate("backup", "chek", str(archive)).code == 2


@pytest.mark.slow
def test_keys_are_copied_by_choice_alone_and_come_back_closed(
    hookgate: CommandLine, tmp_path: Path
) -> None:
    home = filled(hookgate)
    folder = tmp_path / "copies"
    folder.mkdir()
    assert hookgate("backup", str(folder), "--with-keys").code == 0
    (archive,) = folder.iterdir()
    assert archive.name.startswith("hookgate-")
    assert names(archive) == ALWAYS | {"keys/openai_api_key"}
    (home / "keys" / "openai_api_key").unlink()
    assert hookgate("restore", str(archive), "--force").code == 0
    key = home / "keys" / "openai_api_key"
    assert (key.read_text(), key.stat().st_mode & 0o777) == ("sk-very-secret-0123\n", 0o600)
    assert hookgate("audit", "verify").code == 0


def test_former_keys_of_the_audit_are_copied_so_that_a_new_machine_verifies_its_rows(
    hookgate: CommandLine, tmp_path: Path
) -> None:
    home = filled(hookgate)
    (home / "audit.key").rename(home / "audit.key.former")
    elsewhere = tmp_path / "audit.key"
    elsewhere.write_bytes((home / "audit.key.former").read_bytes())
    elsewhere.chmod(0o600)
    hookgate.config(f'[plugin.audit]\nformer_keys = ["audit.key.former", "{elsewhere}"]\n')
    assert hookgate("audit", "verify").code == 0
    archive = tmp_path / "copy.tar"
    assert hookgate("backup", str(archive)).code == 0
    assert hookgate("backup", "check", str(archive)).code == 0
    key = (home / "audit.key").read_bytes()
    shutil.rmtree(home)
    elsewhere.unlink()
    assert hookgate("restore", str(archive)).code == 0
    # Where no settings said yet where it belongs, it took no other key's place.
    assert (home / "audit.key").read_bytes() == key
    (home / "former-keys" / "audit.key").rename(elsewhere)
    assert hookgate("audit", "verify").code == 0


def test_a_key_of_the_audit_that_the_settings_name_is_copied(
    hookgate: CommandLine, tmp_path: Path
) -> None:
    home = filled(hookgate)
    (home / "seals").mkdir()
    (home / "audit.key").rename(home / "seals" / "audit.key")
    hookgate.config('[plugin.audit]\nkey_file = "seals/audit.key"\n')
    assert hookgate("backup", str(tmp_path / "copy.tar")).code == 0
    assert "audit.key" in names(tmp_path / "copy.tar")


def test_a_copy_is_verified_with_the_secret_that_seals_the_record(
    hookgate: CommandLine, tmp_path: Path
) -> None:
    seal = "a-key-of-thirty-two-bytes-or-more"
    hookgate.config(f'[secrets]\nseal = "{seal}"\n[plugin.audit]\nkey_secret = "seal"\n')
    assert hookgate("chat", "what is 17*23?").code == 0
    archive = tmp_path / "copy.tar"
    assert hookgate("backup", str(archive)).code == 0
    assert hookgate("backup", "check", str(archive)).code == 0
    hookgate.config("")
    assert "sealed with a key that is neither" in hookgate("backup", "check", str(archive)).out


@pytest.mark.slow
def test_nothing_is_overwritten_unasked(hookgate: CommandLine, tmp_path: Path) -> None:
    home = filled(hookgate)
    archive = tmp_path / "copy.tar"
    assert hookgate("backup", str(archive)).code == 0
    first = archive.read_bytes()
    again = hookgate("backup", str(archive))
    assert (again.code, archive.read_bytes()) == (1, first)
    assert "--force" in again.err
    assert hookgate("backup", str(archive), "--force").code == 0
    assert archive.read_bytes() != first

    assert hookgate("chat", "said after the copy").code == 0
    later = said(home)
    refused = hookgate("restore", str(archive))
    assert (refused.code, said(home)) == (1, later)
    assert "--force" in refused.err
    assert hookgate("restore", str(archive), "--force").code == 0
    assert said(home) < later
    with closing(sqlite3.connect(home / "hookgate.db.replaced")) as connection:
        assert connection.execute("SELECT count(*) FROM storage_messages").fetchone()[0] == later
    # Nor what the first restore has left.
    first = (home / "hookgate.db.replaced").read_bytes()
    assert hookgate("restore", str(archive), "--force").code == 0
    assert (home / "hookgate.db.replaced").read_bytes() == first
    assert (home / "hookgate.db.2.replaced").is_file()


def test_a_name_without_an_ending_is_a_folder_in_which_copies_are_named_by_the_time(
    hookgate: CommandLine, tmp_path: Path
) -> None:
    filled(hookgate)
    folder = tmp_path / "backups"
    made = Path(hookgate("backup", str(folder), "--json").json["file"])
    assert re.fullmatch(r"hookgate-\d{8}T\d{6}Z\.tar", made.name)
    assert (made.parent, folder.stat().st_mode & 0o777) == (folder, 0o700)
    plain = tmp_path / "plain"
    plain.write_text("mine")
    assert hookgate("backup", str(plain)).code == 1
    assert plain.read_text() == "mine"


def test_a_home_that_a_gateway_holds_is_left_alone(
    hookgate: CommandLine, serve: Callable[[], object], tmp_path: Path
) -> None:
    home = filled(hookgate)
    archive = tmp_path / "copy.tar"
    assert hookgate("backup", str(archive)).code == 0
    serve()
    before = said(home)
    refused = hookgate("restore", str(archive), "--force")
    assert (refused.code, said(home)) == (1, before)
    assert "held by" in refused.err


def test_with_postgresql_it_says_what_to_use(hookgate: CommandLine, tmp_path: Path) -> None:
    hookgate.config('[plugin.storage]\nurl = "postgresql://me:hidden@127.0.0.1:1/db"\n')
    for words in (("backup", str(tmp_path / "x")), ("restore", str(tmp_path / "x"))):
        ran = hookgate(*words)
        assert ran.code == 1
        assert "pg_dump" in ran.err
        assert "hidden" not in ran.err


def test_what_is_no_copy_or_a_damaged_one_changes_nothing(
    hookgate: CommandLine, tmp_path: Path
) -> None:
    home = filled(hookgate)
    archive = tmp_path / "copy.tar"
    assert hookgate("backup", str(archive)).code == 0
    good, before = archive.read_bytes(), said(home)
    bad = tmp_path / "bad.tar"
    broken = bytearray(good)
    broken[good.index(b"SQLite format 3") + 5000] ^= 0xFF
    elsewhere = good.replace(b"audit.key", b"../evilkey")
    for content in (b"", b"hello", good[: len(good) // 2], bytes(broken), elsewhere):
        bad.write_bytes(content)
        ran = hookgate("restore", str(bad), "--force")
        assert ran.code == 1, content[:20]
        assert said(home) == before
    assert not list(home.glob(".hookgate-*"))
    assert not (hookgate.home / "evilkey").exists()
    bad.write_bytes(b"root:x:0:0")
    ran = hookgate("restore", str(bad), "--force")
    assert ran.err.replace("\n", " ").strip() == (
        f"Error: found no archive in {bad}: expected a file that `hookgate backup` wrote"
    )
    missing = hookgate("restore", str(tmp_path / "none.tar"))
    assert missing.code == 1
    assert hookgate("audit", "verify").code == 0


def test_without_a_store_there_is_nothing_to_copy(hookgate: CommandLine, tmp_path: Path) -> None:
    ran = hookgate("backup", str(tmp_path / "copy.tar"))
    assert ran.code == 1
    assert "found no store" in ran.err
    assert list(tmp_path.glob("*.tar")) == []


BACKUP = """
import sys
from datetime import datetime, UTC
from pathlib import Path
from hookgate.builtin_plugins.storage import backup
home, target = map(Path, sys.argv[1:])
kept = backup.Kept(store=home / "hookgate.db", files={"audit.key": home / "audit.key"})
print("begin", flush=True)
while True:
    backup.back_up(kept, target, now=datetime.now(UTC), force=True)
    print("made", flush=True)
"""


@pytest.mark.slow
def test_a_kill_leaves_no_half_file_under_the_final_name(
    hookgate: CommandLine, tmp_path: Path
) -> None:
    home = filled(hookgate)
    with closing(sqlite3.connect(home / "hookgate.db")) as connection:
        connection.execute("CREATE TABLE ballast (data BLOB)")
        connection.execute("INSERT INTO ballast VALUES (zeroblob(30000000))")
        connection.commit()
    target = tmp_path / "copy.tar"
    seen = set()
    for number in range(8):
        target.unlink(missing_ok=True)
        process = subprocess.Popen(
            [sys.executable, "-c", BACKUP, str(home), str(target)], stdout=subprocess.PIPE
        )
        assert process.stdout is not None
        assert process.stdout.readline() == b"begin\n"
        time.sleep(0.02 * number)  # at another place of its work each time
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close()
        seen.add(target.exists())
        if target.exists():
            assert names(target) == {"contents.json", "store.db", "audit.key"}
            other = CommandLine(tmp_path / f"other{number}")
            other.home.mkdir()
            assert other("restore", str(target)).code == 0
            assert said(home_of(other)) == said(home)
    assert False in seen


# -- one session -----------------------------------------------------------------------


@pytest.mark.parametrize("running", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_a_session_is_exported_and_deleted(
    hookgate: CommandLine, serve: Callable[[], object], tmp_path: Path, running: bool
) -> None:
    if running:
        serve()
    for text in ("/say one", "/say two"):
        assert hookgate("chat", text).code == 0
    assert hookgate("turn", "/say three", "--peer", "ada").code == 0
    sessions = [row["session"] for row in hookgate("sessions", "list", "--json").json["sessions"]]
    key = next(session for session in sessions if session.endswith(":ada"))
    out = tmp_path / "ada.jsonl"
    assert "wrote 2 messages" in hookgate("sessions", "export", key, "--out", str(out)).out
    assert out.stat().st_mode & 0o777 == 0o600
    lines = [json.loads(line) for line in out.read_text("utf-8").splitlines()]
    assert [message["role"] for message in lines] == ["user", "assistant"]
    printed = hookgate("sessions", "export", key).out.splitlines()
    assert [json.loads(line) for line in printed] == lines

    assert hookgate("turn", "/say four", "--peer", "ada").code == 0
    part = hookgate("sessions", "delete", key, "--turns", lines[0]["turn"])
    assert (part.code, part.out) == (0, f"deleted 2 messages of {key}\n")
    printed = hookgate("sessions", "export", key).out.splitlines()
    assert [json.loads(line)["role"] for line in printed] == ["user", "assistant"]

    gone = hookgate("sessions", "delete", key)
    assert (gone.code, gone.out) == (0, f"deleted 2 messages of {key}\n")
    left = [row["session"] for row in hookgate("sessions", "list", "--json").json["sessions"]]
    assert left == [session for session in sessions if session != key]
    for words in (("delete", key), ("export", key), ("show", key)):
        assert hookgate("sessions", *words).code == 1
    rows = hookgate("audit", "list", "--json").json["entries"]
    assert [row["data"]["messages"] for row in rows if row["kind"] == "session_deleted"] == [2, 2]
    assert hookgate("turn", "/say again", "--peer", "ada").code == 0
