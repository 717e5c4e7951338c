"""What several test folders share. A folder's own fixtures stand in its own conftest."""

from __future__ import annotations

import gc
import os
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import hypothesis
import pytest
import typer.core
import typer.main
import yaml
from aiohttp import web_app
from hypothesis.internal.conjecture import providers
from typer import testing
from typer.main import get_command

from hookgate.builtin_plugins.egress import service as egress

pytest_plugins = [
    "hookgate.kit.testing.fixtures",
    "tests.support.compiled",
    "tests.support.postgres",
    "tests.support.remembered",
]

# A deadline would measure the machine: on a busy one any example can take long for once.
# Among the unit tests a property is tried with the same few examples each time, so that they fail
# for a change and not by chance; `make test-slow` looks for others with the profile "full".
hypothesis.settings.register_profile("full", deadline=None)
hypothesis.settings.register_profile("unit", deadline=None, max_examples=10, derandomize=True)
hypothesis.settings.load_profile("unit")

# A process of tests holds millions of objects that stay: modules, and thousands of tests. They
# need not be looked through again and again.
gc.set_threshold(50_000, 20, 20)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems() -> None:
    """Leave the constants of this repository out of the examples of the unit tests.

    Hypothesis reads them from the source of every module that is loaded, which takes seconds, and
    looks through all of them for each form of a value. With them, other examples would be tried
    where other modules are loaded: by one file of tests alone, say.
    """
    if hypothesis.settings.get_current_profile_name() == "unit":
        none = providers.Constants()
        providers._get_local_constants = lambda: none


def pytest_collection_finish() -> None:
    """Have the collector pass over what was made before the first test."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown() -> None:
    """Let go of the gateways of a test.

    aiohttp keeps each handler that was called with its application, a thousand of them, and so the
    gateways behind them: looking through millions of objects took a tenth of all tests.
    """
    web_app._cached_build_middleware.cache_clear()


@pytest.fixture(scope="session")
def short() -> bool:
    """Whether slow suites run in their short form, as they do in CI."""
    return os.environ.get("HOOKGATE_TEST_SHORT") == "1"


FETCHED = {
    "HF_HOME": ".cache/huggingface",
    "PIP_CACHE_DIR": ".cache/pip",
    "UV_CACHE_DIR": ".cache/uv",
}
"""Where libraries keep the large files that they have fetched once, in a home."""
LED_BY = ("HOOKGATE_HOME", "HOOKGATE_CONFIG", "HOOKGATE_TOKEN")
"""Variables that lead to what somebody has of hookgate."""


@contextmanager
def empty_home(home: Path) -> Iterator[None]:
    """Have everybody look into an empty home: what stands in the real one decides no test."""
    fetched = {name: str(Path.home() / folder) for name, folder in FETCHED.items()}
    with pytest.MonkeyPatch.context() as patch:
        for name in [*LED_BY, *(name for name in os.environ if name.startswith("XDG_"))]:
            patch.delenv(name, raising=False)
        for name, folder in fetched.items():
            patch.setenv(name, os.environ.get(name, folder))
        patch.setenv("HOME", str(home))
        yield


@contextmanager
def temporary(folder: Path) -> Iterator[None]:
    """Have what asks for a temporary folder by itself leave it where pytest tidies up."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tempfile, "tempdir", str(folder))
        yield


@contextmanager
def authorities() -> Iterator[None]:
    """Read the certificate authorities once in a process, and not for every gateway."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(egress, "tls_settings", cache(egress.tls_settings))
        yield


@contextmanager
def command() -> Iterator[None]:
    """Make the tree of commands once, as a process does, and not for every call."""
    made = cache(get_command)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(testing, "_get_command", made)
        patch.setattr(typer.main, "get_command", made)
        yield


class OpenRunner(testing.CliRunner):
    """Runs commands, and raises what they raise: an exit code alone does not say what it was."""

    def invoke(self, *args: Any, **more: Any) -> testing.Result:
        """Run a command."""
        result = super().invoke(*args, **more)
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return result


@pytest.fixture
def runner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> testing.CliRunner:
    """Run the command line in an empty home, for those who ask what it knows.

    Nobody reads its help then, and most of the time would go into drawing the boxes.
    """
    monkeypatch.setattr(typer.core, "HAS_RICH", False)
    environ = {"HOOKGATE_HOME": str(tmp_path), "HOOKGATE_PLUGINS__ENTRY_POINTS": "false"}
    return OpenRunner(env=environ)


KEPT_CHARS = 8192
"""What hookgate ships is shorter than this; what is made to be slow to read is longer."""


@contextmanager
def manifests() -> Iterator[None]:
    """Take a YAML text apart once: every gateway reads the fifty files that are shipped.

    What is kept are PyYAML's events, which nobody changes. All that hookgate itself makes of
    them, and all that it refuses, is done anew each time.
    """
    parse = yaml.parse
    known: dict[tuple[str, Any], list[Any]] = {}

    def parsed(text: str, Loader: Any = yaml.Loader) -> Iterator[Any]:
        if len(text) > KEPT_CHARS:
            yield from parse(text, Loader=Loader)
            return
        found = known.get((text, Loader))
        if found is None:
            found = []
            for event in parse(text, Loader=Loader):
                found.append(event)
                yield event
            known[text, Loader] = found
        else:
            yield from found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(yaml, "parse", parsed)
        yield


@pytest.fixture(scope="session", autouse=True)
def surroundings(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Give all tests of a process what stands above.

    It is one fixture, since pytest looks each that is used by itself up for every test.

    What was left is looked through while the last test can still fail for it. A file or socket
    that nobody closed is told of when the collector finds it; what it finds after a worker's last
    test is told nobody. What it has looked through once, pytest need not have looked through again
    when it ends.
    """
    # pytest itself loads these modules, after this one.
    from tests.support.compiled import compiled_once
    from tests.support.remembered import remembered

    with ExitStack() as stack:
        stack.enter_context(empty_home(tmp_path_factory.mktemp("home")))
        stack.enter_context(temporary(tmp_path_factory.mktemp("temporary")))
        for part in (authorities, command, manifests, remembered, compiled_once):
            stack.enter_context(part())
        yield
    gc.collect()
    gc.freeze()
