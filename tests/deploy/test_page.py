"""docs/deploying.md followed from an empty Debian, command by command, as the page says them."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.deploy.machine import ROOT, Machine, machine, missing, registry, unpack

pytestmark = [
    pytest.mark.deploy,
    pytest.mark.timeout(1800),
    pytest.mark.skipif(bool(missing()), reason=missing()),
]

SECTION = re.search(
    r"^## From an empty Debian\n(.*?)^## ",
    (ROOT / "docs" / "deploying.md").read_text(),
    re.M | re.S,
)
assert SECTION is not None
STEPS = re.findall(r"^### (.*?)\n.*?```sh\n(.*?)```", SECTION[1], re.M | re.S)


@pytest.fixture(scope="module")
def debian(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    root = tmp_path_factory.mktemp("debian") / "root"
    unpack(root)
    source = root / "srv" / "hookgate"
    source.mkdir()
    (wheel,) = (ROOT / "dist").glob("hookgate-*.whl")
    shutil.copy(wheel, source)
    shutil.copytree(ROOT / "deploy", source / "deploy")
    stand_in = root / "usr" / "local" / "sbin" / "systemctl"
    shutil.copy(Path(__file__).with_name("systemctl.py"), stand_in)
    stand_in.chmod(0o755)
    environ = {"ANTHROPIC_API_KEY": "sk-ant-0123456789", **registry(root)}
    with machine(root, environ) as running:
        yield running


def test_the_page_is_followed_from_an_empty_debian(debian: Machine) -> None:
    """In one shell, as a person would: what a step has set is set in the next one."""
    script = "".join(f'echo "== $SECONDS s: {title}"\n{block}' for title, block in STEPS)
    said = debian.run(f'{script}echo "== $SECONDS s: the end"')
    times = [int(seconds) for seconds in re.findall(r"^== (\d+) s: ", said, re.M)]
    for title, since, until in zip((title for title, _ in STEPS), times, times[1:], strict=False):
        print(f"{until - since:4} s  {title}")

    (answer,) = re.findall(r'^.*"text":"([^"]*)"', said, re.M)
    assert "391" in answer
    log = (debian.root / "var" / "log" / "hookgate.log").read_text()
    assert "Traceback" not in log
    assert "sk-ant-0123456789" not in log + said
    assert times[-1] < 600, "the page promises a first answer within ten minutes"
    # What systemd would be told by a reload; it is waited for by asking for the agent.
    debian.run('until grep -q \'"agents":\\["main"\\]\' /var/log/hookgate.log; do sleep 0.1; done')
