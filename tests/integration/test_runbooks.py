"""The runbooks, each run as it stands against a gateway of its own.

What belongs to the machine and not to hookgate is played: `systemctl` starts and stops a gateway of
this checkout, `pip` and `timedatectl` do nothing.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from hookgate.core.gateway.access.tokens import new_token

# Each runs some ten commands in processes of their own.
pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]

PAGE = Path(__file__).parents[2] / "docs" / "runbooks.md"
RUNBOOKS = re.findall(r"^## (.*?)\n.*?```sh\n(.*?)```", PAGE.read_text("utf-8"), re.M | re.S)

SYSTEMCTL = """#!/bin/sh
pid="$HOOKGATE_HOME/../pid"
stop() {
    [ -f "$pid" ] || return 0
    kill "$(cat "$pid")"
    while kill -0 "$(cat "$pid")" 2>/dev/null; do sleep 0.05; done
    rm "$pid"
}
start() {
    hookgate serve --port 0 >> "$HOOKGATE_HOME/../log" 2>&1 &
    echo $! > "$pid"
    until hookgate status > /dev/null 2>&1; do kill -0 $! || exit 1; sleep 0.1; done
}
case "$1" in
    stop) stop ;;
    start) start ;;
    restart) stop; start ;;
esac
"""


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[dict[str, str]]:
    """The environment of a machine on which a gateway runs that was talked to."""
    home, backups, programs = (tmp_path / name for name in ("home", "backups", "bin"))
    for folder in (home, backups, programs, home / "keys"):
        folder.mkdir(mode=0o700)
    (backups / "version").write_text("0.1.0")
    key = home / "keys" / "openai_api_key"
    key.write_text("sk-former-0123456789")
    key.chmod(0o600)
    laptop, digest = new_token()
    config = home / "config.toml"
    config.write_text(f"[gateway.tokens.laptop]\ndigest = '{digest}'\n")
    del laptop
    stubs = {"systemctl": SYSTEMCTL, "pip": "#!/bin/sh\n", "timedatectl": "#!/bin/sh\n"}
    stubs["sleep"] = '#!/bin/sh\n[ "$1" != 10 ] || set -- 5\nexec /bin/sleep "$@"\n'
    stubs["hookgate"] = f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m hookgate "$@"\n'
    for name, text in stubs.items():
        (programs / name).write_text(text)
        (programs / name).chmod(0o755)
    environ = {
        "PATH": f"{programs}:/usr/bin:/bin",
        "HOME": str(tmp_path),
        "HOOKGATE_HOME": str(home),
        "HOOKGATE_GATEWAY__LIMITS__DRAIN_WAIT_SECONDS": "0",
        "HOOKGATE_PLUGIN__EMBEDDING__EMBEDDER": "none",
        "HOOKGATE_PLUGINS__ENTRY_POINTS": "false",
        "BACKUPS": str(backups),
        "NEW_KEY": "sk-new-0123456789",
        "DIGEST": new_token()[1],
    }
    run("systemctl start hookgate; hookgate chat 'what is 17*23?'", environ)
    run('hookgate backup "$BACKUPS/hookgate-20260101T000000Z.tar" --with-keys', environ)
    yield environ
    run("systemctl stop hookgate", environ)


def run(script: str, environ: dict[str, str], *, shell: str = "bash") -> str:
    """Run a script, of which no command may fail; return what it says."""
    done = subprocess.run(
        [shutil.which(shell) or shell, "-eu", "-o", "pipefail", "-c", script],
        env=environ,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=150,
        check=False,
        cwd=os.path.dirname(environ["HOOKGATE_HOME"]),
    )
    assert done.returncode == 0, f"{script}\n{done.stdout}"
    return done.stdout


def test_there_are_runbooks_of_about_ten_lines() -> None:
    assert len(RUNBOOKS) >= 11
    for title, block in RUNBOOKS:
        assert len(block.splitlines()) <= 10, title


@pytest.mark.parametrize(("title", "block"), RUNBOOKS, ids=[title for title, _ in RUNBOOKS])
def test_a_runbook_runs_as_it_stands(title: str, block: str, machine: dict[str, str]) -> None:
    said = run(block, machine)

    home = Path(machine["HOOKGATE_HOME"])
    for trace in ("Traceback", "sk-former", "sk-new"):
        assert trace not in said
    assert "Traceback" not in (home.parent / "log").read_text()
    if "provider's key" in title:
        assert "secrets have changed" in said
    if "access token" in title:
        assert re.search(r"laptop-2\s", said)
    if "key of the audit" in title:
        assert "sealed with another key" not in said
        assert (home / "audit.key").read_bytes() != (home / "audit.key.former").read_bytes()
    # Whatever was done, the gateway serves behind it.
    run("hookgate chat 'what is 2+2?'", machine)
