"""Secrets as containers get them: mounts of root's, and links into a folder that is swapped."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest
from tests.support.examples import sampled

from hookgate.core.settings import key_file

ROOT = Path(__file__).parent.parent.parent

KUBERNETES = """
mkdir ..2026_11_23
printf ' value-1\\n' > ..2026_11_23/token
chmod 0440 ..2026_11_23/token
ln -s ..2026_11_23 ..data
ln -s ..data/token token
chmod 3777 .
"""
"""What the kubelet lays out for a volume of a secret; it then mounts it read-only."""

IN_FOLDER = """
mkdir -m 0700 ..data
printf value-1 > ..data/token
chmod 0600 ..data/token
ln -s ..data/token token
"""
"""The same in a folder of the user's own."""

DOCKER = "printf value-1 > token; chmod 0444 token"

READ = """
import os, sys
from pathlib import Path
from hookgate.core.domain.errors import ConfigError
from hookgate.core.settings.key_file import read_key_file
user = int(sys.argv[2])
if user:
    os.setgroups([]); os.setgid(user); os.setuid(user)
try:
    print("read", read_key_file(Path(sys.argv[1])))
except ConfigError as error:
    print("refused", error)
"""


@cache
def unshare() -> tuple[str, ...]:
    """Return what gives a command mounts of its own."""
    for words in (("unshare", "-m"), ("unshare", "-Urm")):
        try:
            done = subprocess.run(
                [*words, "mount", "-t", "tmpfs", "none", "/mnt"], capture_output=True, check=False
            )
        except FileNotFoundError:
            break
        if done.returncode == 0:
            return words
    pytest.skip("this machine lets nobody mount")


def read(
    tmp_path: Path, build: str, *, mode: str = "ro", user: int = 0, name: str = "token"
) -> str:
    """Build a folder that is mounted, and return what comes of reading a file there.

    Args:
        tmp_path: Where.
        build: Commands that lay it out, run as root in the folder.
        mode: `ro` or `rw`.
        user: Who reads; root otherwise.
        name: The file.
    """
    words = unshare()
    if user and os.geteuid():
        pytest.skip("only root can become somebody else")
    # Not below the test's own folder: nobody else gets through that.
    script = f"""
    set -e
    mount -t tmpfs -o mode=0755 none /mnt
    mkdir /mnt/in; cd /mnt/in; umask 022
    {build}
    cd /
    mount -o remount,{mode} /mnt
    """
    command = [*words, "sh", "-c", script + 'exec "$@"', "sh", sys.executable, "-c", READ]
    done = subprocess.run(
        [*command, f"/mnt/in/{name}", str(user)],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.parametrize("user", [0, 4242])
@pytest.mark.parametrize(
    "build", [KUBERNETES.replace("0440", "0444"), DOCKER, "printf value-1 > token"]
)
def test_a_mounted_secret_is_read(tmp_path: Path, build: str, user: int) -> None:
    assert read(tmp_path, build, user=user) == "read value-1"


def test_a_mounted_secret_that_its_group_may_read_is_read(tmp_path: Path) -> None:
    build = KUBERNETES + "chgrp -R 4242 ..2026_11_23"
    if os.geteuid():
        pytest.skip("only root can give files to a group")
    assert read(tmp_path, build, user=4242) == "read value-1"


def test_a_file_of_roots_that_its_group_may_read_is_read_without_a_mount(tmp_path: Path) -> None:
    build = "printf value-1 > token; chgrp 4242 token; chmod 0640 token"
    assert read(tmp_path, build, mode="rw", user=4242) == "read value-1"


def test_a_link_is_followed_where_nobody_else_can_write(tmp_path: Path) -> None:
    assert read(tmp_path, IN_FOLDER, mode="rw") == "read value-1"
    assert read(tmp_path, IN_FOLDER.replace("0600", "0400"), mode="rw") == "read value-1"


def test_a_link_of_roots_is_followed_where_root_alone_can_write(tmp_path: Path) -> None:
    build = KUBERNETES.replace("3777", "0755") + "chgrp -R 4242 ..2026_11_23"
    if os.geteuid():
        pytest.skip("only root can give files to a group")
    assert read(tmp_path, build, mode="rw", user=4242) == "read value-1"


@pytest.mark.parametrize(
    ("build", "mode", "user", "says"),
    sampled(
        [
            # What another could change.
            (DOCKER + "; chmod 0664 token", "ro", 0, "mode 0664"),
            (DOCKER + "; chown 4343 token", "ro", 4242, "owned by user 4343"),
            (DOCKER + "; chown 4343 .", "ro", 4242, "owned by user 4343"),
            (KUBERNETES + "chown 4343 ..2026_11_23", "ro", 0, "owned by user 4343"),
            (KUBERNETES, "rw", 4242, "others may write to"),
            ("printf x > token; chmod 0600 token; chmod 0777 .", "rw", 0, "others may write to"),
            # What others can read, where it is no mount.
            (DOCKER, "rw", 0, "mode 0444, expected 0600"),
            (DOCKER, "rw", 4242, "mode 0444, expected 0640"),
            # A way out of the folder.
            ("printf x > ../key; ln -s ../key token", "ro", 0, "leads out of its folder"),
            ("printf x > key; ln -s /mnt/in/key token", "ro", 0, "leads out of its folder"),
            ("mkdir a; printf x > key; ln -s a/../key token", "ro", 0, "leads out of its folder"),
            ("ln -s token token", "ro", 0, "a circle"),
            ("ln -s token token", "rw", 0, "a circle"),
            (IN_FOLDER.replace("0700", "0777"), "rw", 0, "others may write to"),
            ("mkfifo token", "ro", 0, "not a file"),
            ("mkdir a; ln -s a token", "ro", 0, "not a file"),
            ("ln -s nowhere token", "ro", 0, "no such file"),
        ],
        every=4,
    ),
)
def test_what_others_could_change_or_put_there_is_refused(
    tmp_path: Path, build: str, mode: str, user: int, says: str
) -> None:
    if "chown" in build and os.geteuid():
        pytest.skip("only root can give files away")
    found = read(tmp_path, build, mode=mode, user=user)
    assert found.startswith("refused")
    assert says in found


def test_a_secret_that_is_swapped_meanwhile_is_the_new_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lay_out(value: str) -> None:
        folder = tmp_path / f"..{value}"
        folder.mkdir(mode=0o700)
        (folder / "token").write_text(value)
        (folder / "token").chmod(0o400)
        (tmp_path / "..new").symlink_to(folder.name)
        (tmp_path / "..new").rename(tmp_path / "..data")

    lay_out("value-1")
    (tmp_path / "token").symlink_to("..data/token")
    readlink = os.readlink

    def swapping(name: str, *, dir_fd: int) -> str:
        target = readlink(name, dir_fd=dir_fd)
        if target == "..value-1":
            lay_out("value-2")
            shutil.rmtree(tmp_path / "..value-1")
        return target

    monkeypatch.setattr(os, "readlink", swapping)
    assert key_file.read_key_file(tmp_path / "token") == "value-2"
