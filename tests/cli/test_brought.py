"""Commands that plugins bring: found by name, whatever state plugins and settings are in."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.cli.conftest import CommandLine, Ran

from hookgate.cli.state import State

GREET = """
import typer
from hookgate.kit.commands import JsonOption, state_of

def greet(ctx: typer.Context, name: str, as_json: JsonOption = False) -> None:
    "Greet somebody."
    state_of(ctx).show({"greeting": f"hello {name}"})
"""

Install = Callable[..., None]


@pytest.fixture
def builtin_plugins() -> None:
    """All of them."""


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Return what installs a distribution that brings commands."""
    site = tmp_path / "site"
    site.mkdir()
    monkeypatch.syspath_prepend(str(site))

    def made(source: str, points: str, *, name: str = "acme-greeter") -> None:
        module = name.replace("-", "_")
        monkeypatch.delitem(sys.modules, module, raising=False)
        (site / f"{module}.py").write_text(source)
        info = site / f"{module}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(points)

    return made


@pytest.fixture
def strangers(hookgate: CommandLine) -> Callable[..., object]:
    """Return the command line with third parties' packages looked for."""

    def run(*words: str, **environ: str) -> object:
        return hookgate(*words, HOOKGATE_PLUGINS__ENTRY_POINTS="true", **environ)

    return run


POINT = "[hookgate.commands]\ngreet = acme_greeter:greet\n"


def test_the_help_shows_commands_of_builtin_plugins_without_loading_one() -> None:
    code = (
        "import sys\n"
        "from hookgate.cli import main\n"
        "sys.argv = ['hookgate', '--help']\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        "heavy = ('sqlalchemy', 'aiohttp', 'numpy', 'cel_expr_python', 'onnxruntime')\n"
        "ours = [m for m in sys.modules if m.startswith('hookgate.') and m.endswith('.plugin')]\n"
        "print(ours + [m for m in heavy if m in sys.modules], file=sys.stderr)"
    )

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stderr.strip() == "[]"
    assert {"policy", "cards", "capabilities", "audit", "discover"} <= set(done.stdout.split())


def test_the_help_has_a_sentence_for_each_group_of_a_builtin_plugin(hookgate: CommandLine) -> None:
    shown = hookgate("--help").out
    assert re.findall(r"\w+, of \w+\.", shown) == []
    assert "The record of decisions on tool calls" in shown


def test_a_plugin_that_is_switched_off_brings_no_commands(hookgate: CommandLine) -> None:
    hookgate.config('[plugins]\ndisable = ["policy"]\n')

    ran = hookgate("policy", "check")

    assert ran.code == 1
    assert "`hookgate policy` is a command of the plugin policy, which is switched off" in ran.err


def test_a_plugin_that_is_replaced_brings_no_commands(hookgate: CommandLine) -> None:
    hookgate.config('[plugins]\nreplace = { policy = "acme_policy" }\n')

    assert "policy" not in hookgate("--help").out.split()


def test_two_plugins_may_bring_commands_of_one_group(hookgate: CommandLine) -> None:
    assert {"validate", "scan"} <= set(hookgate("cards", "--help").out.split())

    hookgate.config('[plugins]\ndisable = ["awareness"]\n')

    assert "scan" in hookgate("cards", "--help").out.split()
    assert hookgate("cards", "validate").code == 2


def test_an_installed_package_brings_a_command(install: Install, strangers: Callable) -> None:
    install(GREET, POINT)

    assert strangers("greet", "Ada", "--json").json == {"greeting": "hello Ada"}
    assert "greet" in strangers("--help").out.split()


def test_an_installed_package_may_add_to_a_group(install: Install, strangers: Callable) -> None:
    install(GREET, "[hookgate.commands]\npolicy.greet = acme_greeter:greet\n")

    assert strangers("policy", "greet", "Ada", "--json").json == {"greeting": "hello Ada"}


@pytest.mark.parametrize(
    "section",
    [
        'allow = ["another-package"]',
        'allow = ["acme-greeter==2.0"]',
        'allow = ["not a requirement!"]',
        "entry_points = false",
        'disable = ["greeter"]',
    ],
)
def test_a_package_that_may_bring_nothing_is_not_imported(
    section: str,
    install: Install,
    strangers: Callable,
    hookgate: CommandLine,
) -> None:
    install("raise SystemExit('imported')", POINT + "[hookgate]\ngreeter = acme_greeter\n")
    hookgate.config(f"[plugins]\n{section}\n")
    environ = {"HOOKGATE_PLUGINS__ENTRY_POINTS": "false"} if "entry_points" in section else {}

    ran = hookgate("--help", **environ) if environ else strangers("--help")

    assert ran.code == 0
    assert "greet" not in ran.out.split()


def test_a_command_that_cannot_be_loaded_is_named_and_costs_no_other(
    install: Install, strangers: Callable
) -> None:
    install("raise RuntimeError('no such library')", POINT)

    ran = strangers("--help")

    assert ran.code == 0
    assert "`greet` of acme-greeter cannot be loaded: RuntimeError: no such library" in ran.err
    assert "policy" in ran.out.split()


def test_no_package_takes_the_place_of_a_builtin_command(
    install: Install, strangers: Callable
) -> None:
    install(GREET, "[hookgate.commands]\naudit = acme_greeter:greet\nchat = acme_greeter:greet\n")

    assert "Greet somebody" not in strangers("audit", "--help").out
    assert "Greet somebody" not in strangers("chat", "--help").out


@pytest.mark.parametrize("text", ["[gateway\n", "[plugins]\ndisable = 3\n"])
def test_settings_that_are_wrong_take_no_command_away(text: str, hookgate: CommandLine) -> None:
    path = hookgate.config(text)

    checked = hookgate("config", "check")

    assert checked.code == 2
    assert path.name in checked.err
    assert hookgate("policy", "--help").code == 0


DICE = """
from contextlib import asynccontextmanager
from hookgate import Empty, hookimpl, operation, operations_of

class Rolls:
    @operation("dice.roll", scope="chat")
    async def roll(self, _) -> Empty:
        "Roll a die."
        return Empty()

class Plugin:
    name = "dice"
    rolls = {rolls}

    @hookimpl
    def list_operations(self):
        return operations_of(self.rolls)

    @hookimpl
    @asynccontextmanager
    async def lifespan(self, host):
        self.rolls = Rolls()
        yield
"""
DICE_POINT = "[hookgate]\ndice = acme_dice:Plugin\n"


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        (("dice", "--help"), "Roll a die."),
        (("dice", "roll", "--help"), "Operation dice.roll of dice."),
        (("memory", "--help"), "search"),
    ],
)
def test_help_beside_a_third_partys_plugin_opens_nothing(
    words: tuple[str, ...],
    shown: str,
    hookgate: CommandLine,
    strangers: Callable[..., Ran],
    install: Install,
    started: list[str],
) -> None:
    install(DICE.format(rolls="Rolls()"), DICE_POINT, name="acme-dice")

    ran = strangers(*words)

    assert (ran.code, shown in ran.out) == (0, True), ran.out + ran.err
    # A gateway keeps what it has there; the plugin's own folder is beside it.
    assert (started, list((hookgate.home / ".hookgate").glob("*"))) == ([], [])


def test_a_plugin_that_names_its_operations_once_it_is_open_is_opened_for_its_help(
    strangers: Callable[..., Ran], install: Install, started: list[str]
) -> None:
    install(DICE.format(rolls="None"), DICE_POINT, name="acme-dice")

    ran = strangers("dice", "--help")

    assert (ran.code, "Roll a die." in ran.out) == (0, True), ran.out + ran.err
    assert started


def test_third_parties_are_asked_for_their_operations_once_a_run(
    strangers: Callable[..., Ran], install: Install, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(DICE.format(rolls="Rolls()"), DICE_POINT, name="acme-dice")
    surveys: list[object] = []
    survey = State.survey

    def counted(self: State, *args: object, **more: object) -> object:
        surveys.append(self)
        return survey(self, *args, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(State, "survey", counted)

    assert "Roll a die." in strangers("dice", "--help").out
    assert len(surveys) == 1


def test_a_plugin_that_cannot_be_loaded_is_a_note_of_the_settings_and_wrong_for_machines(
    install: Install, strangers: Callable[..., Ran]
) -> None:
    source = (
        "from hookgate import hookimpl\n"
        "class Plugin:\n"
        "    @hookimpl\n"
        "    def before_tool_cal(self, turn, call): ...\n"
    )
    install(source, "[hookgate]\nacme_rules = acme_rules\n", name="acme-rules")

    ran = strangers("config", "check", "--json")
    strict = strangers("config", "check", "--strict", "--json")

    (note,) = ran.json["notes"]
    assert (ran.code, note["key"]) == (0, "plugins.acme_rules")
    assert "before_tool_call" in note["found"]
    assert "note" in strangers("config", "check").out
    assert strict.code == 2
    assert "plugins.acme_rules" in [one["key"] for one in strict.json["problems"]]
