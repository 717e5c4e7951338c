"""An empty Debian with a network of its own, and the commands of a page within it."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).parents[2]
DEBIAN = ROOT / ".venv" / "deploy" / "debian.tar"
"""What mmdebstrap has made: Debian's smallest, with systemd as every machine of it has."""

RESOLVER = "10.0.2.3"
"""Where slirp4netns answers for names."""

ENTER = """
mount --make-rprivate /
mount --bind "$1" "$1"
cd "$1"
mount -t proc proc proc
mount -t sysfs -o ro sysfs sys
mount -t tmpfs tmpfs run
mount --rbind /dev dev
ip link set lo up
exec chroot . sleep infinity
"""


def missing() -> str:
    """Say what keeps a machine from being made here; empty where nothing does."""
    if not DEBIAN.exists():
        return "there is no empty Debian: `make test-deploy` makes it, as root on a Debian"
    programs = [name for name in ("unshare", "nsenter", "slirp4netns") if not shutil.which(name)]
    return f"not here: {', '.join(programs)}" if programs else ""


class Machine:
    """A machine that runs.

    Attributes:
        root: Its root, as a folder of this one.
    """

    def __init__(self, root: Path, process: int, environ: Mapping[str, str]) -> None:
        self.root = root
        there = f"/proc/{process}/root"
        self._enter = ["nsenter", f"--target={process}", "--mount", "--net", "--pid", "--uts"]
        self._enter += [f"--root={there}", f"--wd={there}"]
        self._environ = environ

    def run(self, script: str, *, seconds: float = 600) -> str:
        """Run a script of the shell where the release lies, of which no command may fail."""
        done = subprocess.run(
            [*self._enter, "bash", "-euo", "pipefail", "-c", f"cd /srv/hookgate\n{script}"],
            env=self._environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=seconds,
            check=False,
        )
        assert done.returncode == 0, f"{script}\n{done.stdout[-4000:]}"
        return done.stdout


def unpack(root: Path) -> None:
    """Make an empty Debian at `root`, which reaches the registries as this machine does."""
    root.mkdir(parents=True)
    subprocess.run(["tar", "-C", str(root), "-xf", str(DEBIAN)], check=True)
    (root / "etc" / "resolv.conf").unlink(missing_ok=True)
    (root / "etc" / "resolv.conf").write_text(f"nameserver {RESOLVER}\n")
    (root / "etc" / "hosts").write_text("127.0.0.1 localhost\n")


def registry(root: Path) -> dict[str, str]:
    """Return what tells pip of the authorities by which this machine trusts its index."""
    bundle = os.environ.get("PIP_CERT") or os.environ.get("SSL_CERT_FILE")
    if bundle is None:
        return {}
    held = root / "usr" / "local" / "share" / "registry.pem"
    shutil.copyfile(bundle, held)
    return {"PIP_CERT": "/usr/local/share/registry.pem"}


@contextmanager
def machine(root: Path, environ: Mapping[str, str]) -> Iterator[Machine]:
    """Run the Debian at `root`: processes, mounts and a network of its own, and a way out."""
    own = ["--net", "--mount", "--pid", "--uts", "--fork", "--kill-child"]
    outer = subprocess.Popen(["unshare", *own, "sh", "-euc", ENTER, "sh", str(root)])
    way_out: subprocess.Popen[bytes] | None = None
    try:
        inner = _first(outer)
        ready, tell = os.pipe()
        way_out = subprocess.Popen(
            ["slirp4netns", "--configure", "--mtu=65520", f"--ready-fd={tell}", str(inner), "tap0"],
            pass_fds=(tell,),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(tell)
        with os.fdopen(ready, "rb") as said:
            assert said.read(1) == b"1", "slirp4netns has ended"
        base = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
        base |= {"HOME": "/root", "LANG": "C.UTF-8", "DEBIAN_FRONTEND": "noninteractive"}
        yield Machine(root, inner, {**base, **environ})
    finally:
        for process in (way_out, outer):
            if process is not None:
                process.kill()
                process.wait()


def _first(outer: subprocess.Popen[bytes]) -> int:
    """Wait until the first process within is what keeps the machine, and return its number."""
    while outer.poll() is None:
        children = Path(f"/proc/{outer.pid}/task/{outer.pid}/children").read_text().split()
        if children and Path(f"/proc/{children[0]}/comm").read_text() == "sleep\n":
            return int(children[0])
        os.sched_yield()
    raise AssertionError("the machine's first process has ended: see what it says above")
