"""The image, built by buildah on a base that is made here, and run as a cluster would run it."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.deploy.machine import ROOT, missing, registry, unpack

CONTAINERFILE = ROOT / "deploy" / "Containerfile"
WITHOUT = missing() or ("" if shutil.which("buildah") else "not here: buildah")

pytestmark = [pytest.mark.deploy, pytest.mark.timeout(1800)]


def test_hadolint_finds_nothing() -> None:
    program = Path(sys.executable).with_name("hadolint")
    done = subprocess.run([program, CONTAINERFILE], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


@dataclass(frozen=True)
class Image:
    """An image that was built.

    Attributes:
        root: Its files.
        config: What it says of how it is run.
    """

    root: Path
    config: Mapping[str, Any]


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Image]:
    folder = tmp_path_factory.mktemp("image")
    store = ["--storage-driver=vfs", f"--root={folder}/store", f"--runroot={folder}/run"]

    def buildah(*words: object) -> str:
        done = subprocess.run(
            ["buildah", *store, *map(str, words)],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            env={**os.environ, "BUILDAH_ISOLATION": "chroot"},
        )
        assert done.returncode == 0, done.stdout[-4000:]
        return done.stdout.strip()

    # What the base has to bring, and no more: Python and pip. Debian's are as good as any.
    base = folder / "base"
    unpack(base)
    bundle = registry(base).get("PIP_CERT")
    (base / "etc" / "pip.conf").write_text(f"[global]\ncert = {bundle}\n" if bundle else "")
    container = buildah("from", "scratch")
    buildah("add", "--quiet", container, base)
    install = (
        "apt-get update -qq && apt-get install -y -qq --no-install-recommends python3-pip"
        " && rm /usr/lib/python3*/EXTERNALLY-MANAGED && ln -s python3 /usr/bin/python"
    )
    buildah("run", container, "--", "sh", "-c", install)
    buildah("commit", "--quiet", "--rm", container, "localhost/python")
    shutil.rmtree(base)

    context = folder / "context"
    subprocess.run(["git", "clone", "--quiet", "--depth=1", f"file://{ROOT}", context], check=True)
    for path in (CONTAINERFILE, ROOT / ".dockerignore", *(ROOT / "deploy").glob("*.txt")):
        shutil.copy(path, context / path.relative_to(ROOT))
    (context / "deploy" / "compose" / "secrets").mkdir()
    (context / "deploy" / "compose" / "secrets" / "client_token").write_text("hgt_secret")
    options = ["--quiet", "--isolation=chroot", "--build-arg=BASE=localhost/python"]
    buildah("bud", *options, f"--file={CONTAINERFILE}", "--tag=hookgate", context)
    built = buildah("from", "localhost/hookgate")
    config = json.loads(buildah("inspect", built))["OCIv1"]["config"]
    yield Image(Path(buildah("mount", built)), config)
    buildah("umount", built)


CLOSED = """
root=$1; shift
mount --make-rprivate /
mount --bind "$root" "$root"
mount -t proc proc "$root/proc"
mount --rbind /dev "$root/dev"
mount -t tmpfs -o mode=1777 tmpfs "$root/home/hookgate"
mount -o remount,bind,ro "$root"
ip link set lo up
exec chroot "$root" setpriv --reuid=54321 --regid=54321 --clear-groups --no-new-privs \
  --bounding-set=-all --inh-caps=-all "$@"
"""
"""A read-only root, a user without a name, no capability, no network; one mount is written."""

ANSWERS = """
! touch /etc/one 2>/dev/null || exit 3
test "$(id -u)" = 54321
hookgate config check --strict
"$@" & gateway=$!
until python -c "$PROBE" 2>/dev/null; do kill -0 $gateway || exit 4; sleep 0.2; done
python - <<'END'
import json, urllib.request
request = urllib.request.Request("http://127.0.0.1:7200/v1/turns")
request.add_header("Content-Type", "application/json")
content = json.dumps({"content": "what is 17*23?"}).encode()
with urllib.request.urlopen(request, content, timeout=60) as answer:
    print(json.loads(answer.read())["text"])
END
kill -TERM $gateway
wait $gateway
"""


@pytest.mark.skipif(bool(WITHOUT), reason=WITHOUT)
def test_the_image_runs_on_a_read_only_root_as_any_user(image: Image) -> None:
    config = image.config
    assert config["User"] == "10001:10001"
    command = [*config["Entrypoint"], *config["Cmd"]]
    own = dict(line.split("=", 1) for line in config["Env"])
    # Docker's own word, which the OCI form of an image does not carry.
    (probe,) = re.findall(r'^ +"(import urllib.*)"\]$', CONTAINERFILE.read_text(), re.M)
    environ = {"PATH": "/usr/local/bin:/usr/bin:/bin", **own, "PROBE": probe}
    environ["HOOKGATE_GATEWAY__LIMITS__DRAIN_WAIT_SECONDS"] = "0"
    namespaces = ["--mount", "--pid", "--net", "--ipc", "--fork", "--kill-child"]
    within = ["sh", "-euc", ANSWERS, "sh", *command]
    done = subprocess.run(
        ["unshare", *namespaces, "sh", "-euc", CLOSED, "sh", image.root, *within],
        env=environ,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    assert "391" in done.stdout
    assert "Traceback" not in done.stdout


@pytest.mark.skipif(bool(WITHOUT), reason=WITHOUT)
def test_what_builds_and_what_is_secret_stays_out_of_the_image(image: Image) -> None:
    for name in ("gcc", "cc", "make", "git"):
        assert not shutil.which(name, path=f"{image.root}/usr/bin:{image.root}/usr/local/bin")
    for name in ("src", "wheels", "root/.cache/pip"):
        held = image.root / name
        assert not held.exists() or not any(held.iterdir()), name
    found = [path for path in image.root.rglob("client_token") if path.is_file()]
    assert not found
