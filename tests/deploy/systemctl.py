#!/usr/bin/python3
"""``systemctl`` for a machine whose first process is not systemd.

It starts a unit as the unit says, as far as that can be told without systemd: another user, with no
capability; its credentials; a root that is read-only but for its state; the socket by systemd's own
``systemd-socket-activate``. Services of Debian's packages have a script in /etc/init.d.
"""

from __future__ import annotations

import os
import pwd
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

UNITS = Path("/etc/systemd/system")
LOG = Path("/var/log/hookgate.log")
RUNS = Path("/run/hookgate.pid")
USER = 61184  # the first of those that DynamicUser= takes


def lines(unit: str) -> dict[str, list[str]]:
    """Return what a unit and what is dropped into its folder say, by name."""
    said: dict[str, list[str]] = {}
    for path in (UNITS / unit, *sorted((UNITS / f"{unit}.d").glob("*.conf"))):
        for line in path.read_text().splitlines():
            name, equals, value = line.partition("=")
            if equals and not line.startswith("#"):
                said.setdefault(name, []).append(value)
    return said


def environment(said: dict[str, list[str]]) -> dict[str, str]:
    credentials = Path("/run/credentials/hookgate.service")
    credentials.mkdir(parents=True, exist_ok=True)
    for line in said["LoadCredential"]:
        name, _, source = line.partition(":")
        (credentials / name).unlink(missing_ok=True)
        (credentials / name).write_bytes(Path(source).read_bytes())
        os.chown(credentials / name, USER, USER)
        (credentials / name).chmod(0o400)
    os.chown(credentials, USER, USER)
    credentials.chmod(0o500)
    state = Path("/var/lib", said["StateDirectory"][-1])
    state.mkdir(exist_ok=True)
    os.chown(state, USER, USER)
    state.chmod(int(said["StateDirectoryMode"][-1], 8))
    values = dict(word.split("=", 1) for line in said["Environment"] for word in shlex.split(line))
    return {**values, "CREDENTIALS_DIRECTORY": str(credentials), "STATE_DIRECTORY": str(state)}


CLOSED = """
mount --bind / /
mount --bind "$STATE_DIRECTORY" "$STATE_DIRECTORY"
mount -t tmpfs tmpfs /tmp
mount -o remount,bind,ro /
cd /
exec "$@"
"""
"""ProtectSystem=strict, PrivateTmp= and StateDirectory=."""


def closed(environ: dict[str, str]) -> list[str]:
    within = ["unshare", "--mount", "env", "--ignore-environment", "PATH=/usr/bin:/bin:/usr/sbin"]
    within += [f"{name}={value}" for name, value in environ.items()]
    return [*within, "sh", "-euc", CLOSED, "sh"]


def nobody() -> list[str]:
    user = ["setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups"]
    return [*user, "--no-new-privs", "--bounding-set=-all", "--inh-caps=-all"]


def start() -> None:
    said = lines("hookgate.service")
    environ = environment(said)
    # It has no name: systemd's own resolver gives it one for as long as it runs.
    assert USER not in [one.pw_uid for one in pwd.getpwall()]
    for line in said["ExecStartPre"]:
        subprocess.run([*closed(environ), *nobody(), *shlex.split(line)], check=True)
    (address,) = lines("hookgate.socket")["ListenStream"]
    passed = [word for name, value in environ.items() for word in ("-E", f"{name}={value}")]
    activate = ["systemd-socket-activate", f"--listen={address}", *passed]
    command = [*closed(environ), *activate, *nobody(), *shlex.split(said["ExecStart"][0])]
    with LOG.open("ab") as log:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
        )
    RUNS.write_text(str(process.pid))


def stop() -> None:
    if RUNS.exists():
        process = int(RUNS.read_text())
        os.kill(process, signal.SIGTERM)
        while Path(f"/proc/{process}/exe").exists():
            time.sleep(0.05)
        RUNS.unlink()


def verify() -> None:
    units = [str(path) for path in sorted(UNITS.glob("hookgate.*")) if path.is_file()]
    done = subprocess.run(
        ["systemd-analyze", "verify", *units], capture_output=True, text=True, check=False
    )
    if "hookgate" in done.stderr + done.stdout:
        sys.exit(done.stderr + done.stdout)


def main() -> None:
    os.umask(0o022)  # whoever asks may have another one; the first process has this
    match [word for word in sys.argv[1:] if word != "--now"]:
        case ["daemon-reload"]:
            verify()
        case ["enable", *units]:
            subprocess.run(["/usr/bin/systemctl", "enable", *units], check=True)
            if "hookgate.service" in units:
                start()
            else:
                subprocess.run([f"/etc/init.d/{units[0]}", "start"], check=True)
        case ["reload", "hookgate"]:
            os.kill(int(RUNS.read_text()), signal.SIGHUP)
        case ["restart", "hookgate"]:
            stop()
            start()
        case [action, unit]:
            subprocess.run([f"/etc/init.d/{unit}", action], check=True)
        case words:
            sys.exit(f"not known here: systemctl {shlex.join(words)}")


main()
