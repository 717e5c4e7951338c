from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.script import Script, Scripted, echo_tool, gateway, say, until

from hookgate.core import runtime
from hookgate.core.domain.descriptors import Card, Rejected
from hookgate.core.domain.errors import ConfigError, HookError, PluginError
from hookgate.core.domain.models import ProviderInfo
from hookgate.core.settings.schema import Section, Settings
from hookgate.gateway import Gateway
from hookgate.hookspecs import blocking, hookimpl

if TYPE_CHECKING:
    from pathlib import Path

    from hookgate.core.domain.tools import Tool


class Level(Section):
    level: int = 1


class Heard:
    """Does nothing, and so counts as a plugin."""

    @hookimpl
    def after_turn(self, turn: Any) -> None:
        return None


class Live(Heard):
    """Takes over a changed section while it runs."""

    name = "live"
    Settings = Level

    def __init__(self, settings: Level) -> None:
        self.level = settings.level

    def take_settings(self, settings: Level) -> list[str]:
        self.level = settings.level
        return ["level"] if settings.level > 8 else []


class Fixed(Heard):
    """Reads its section once."""

    name = "fixed"
    Settings = Level

    def __init__(self, settings: Level) -> None:
        self.level = settings.level


def settings(**plugins: Any) -> Settings:
    return Settings.model_validate({"plugin": plugins, "plugins": {"entry_points": False}})


async def reloaded(*steps: dict[str, Any]) -> tuple[Gateway, list[dict[str, Any]]]:
    read = [settings(**step) for step in steps]
    gate = Gateway(
        settings(),
        builtin=(),
        plugins=[Scripted(Script(say("ok"))), Live, Fixed],
        read_settings=lambda: read.pop(0),
    )
    async with gate:
        return gate, [dict(await gate.reload()) for _ in steps]


async def test_a_plugin_that_takes_settings_gets_a_changed_section_without_a_restart() -> None:
    gate, (first, second) = await reloaded({"live": {"level": 5}}, {})
    assert first["restart"] == second["restart"] == []
    live = gate.plugins.get("live")
    assert isinstance(live, Live)
    assert live.level == 1  # the second reload took it back


async def test_a_plugin_may_name_keys_that_wait_for_a_restart_all_the_same() -> None:
    _, (result,) = await reloaded({"live": {"level": 9}})
    assert result["restart"] == ["plugin.live.level"]


async def test_what_turns_are_bound_by_counts_from_the_next_turn_on() -> None:
    read: dict[str, dict[str, Any]] = {
        "turn": {"max_iterations": 1},
        "context": {"history_turns": 2},
    }
    gate = gateway(Scripted(Script(say("ok"))))
    gate._read_settings = lambda: gate.settings.model_copy(
        update={
            "turn": gate.settings.turn.model_copy(update=read["turn"]),
            "context": gate.settings.context.model_copy(update=read["context"]),
        }
    )
    async with gate:
        assert (await gate.reload())["restart"] == []
        turn = await gate.chat("hello")
        assert (turn.plan.max_iterations, turn.plan.history_turns) == (1, 2)
        # Who judges, and what is admitted, stays as it began until a restart.
        read["turn"] = {"default_verdict": "allow", "sandbox": "required", "lane_queue": 1}
        read["context"] = {"unsanitized": "allow"}
        began = gate.settings
        waiting = ["context.unsanitized", "turn.default_verdict", "turn.lane_queue", "turn.sandbox"]
        assert (await gate.reload())["restart"] == waiting
        for section, keys in read.items():
            for key in keys:
                now, then = (
                    getattr(getattr(one, section), key) for one in (gate.host.settings, began)
                )
                assert now == then
        assert gate.host.settings.turn.max_iterations == began.turn.max_iterations


async def test_a_changed_section_of_another_plugin_is_named_as_waiting_for_a_restart() -> None:
    gate, (result,) = await reloaded({"fixed": {"level": 5}})
    assert result["restart"] == ["plugin.fixed"]
    fixed = gate.plugins.get("fixed")
    assert isinstance(fixed, Fixed)
    assert fixed.level == 1


async def test_a_section_that_is_wrong_changes_nothing() -> None:
    read = [settings(live={"level": "high"})]
    gate = Gateway(
        settings(),
        builtin=(),
        plugins=[Scripted(Script(say("ok"))), Live],
        read_settings=lambda: read.pop(0),
    )
    async with gate:
        with pytest.raises(ConfigError, match=r"plugin\.live\.level"):
            await gate.reload()
        live = gate.plugins.get("live")
        assert isinstance(live, Live)
        assert live.level == 1


async def test_a_notice_is_shown_until_it_is_withdrawn_and_is_no_fault() -> None:
    async with gateway(Scripted(Script(say("ok")))) as gate:
        before = gate.host.status()["notices"]
        gate.host.standing("cards").note("the card a has changed")
        assert gate.host.status()["notices"] == {**before, "cards": "the card a has changed"}
        assert gate.host.status()["degraded"] == {}
        gate.host.standing("cards").note("")
        assert gate.host.status()["notices"] == before


class Keyed:
    """Brings a provider called like its key, and says what it hears of it."""

    name = "keyed"

    def __init__(self) -> None:
        self.heard: list[str] = []
        self.wrong = False

    @hookimpl
    @asynccontextmanager
    async def lifespan(self, host: Any) -> AsyncIterator[None]:
        undo = host.secrets.watch(self.heard.append)
        yield
        undo()

    @hookimpl
    @blocking
    def describe_providers(self, host: Any) -> Sequence[ProviderInfo]:
        key = host.secrets.get("model_key")
        return [ProviderInfo(name=key or "none", missing="" if key else "no key")]

    @hookimpl
    @blocking
    def list_providers(self, host: Any) -> Sequence[Any]:
        if self.wrong:
            raise OSError("no disk")
        key = host.secrets.get("model_key")
        return [Script(say("ok"), name=key)] if key else []


async def test_a_rotated_secret_brings_its_providers_without_a_reload_and_whoever_watches_hears(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runtime, "SECRETS_SECONDS", 0.01)
    keyed, path = Keyed(), tmp_path / "keys" / "model_key"
    path.parent.mkdir(mode=0o700)
    async with gateway(Scripted(Script(say("ok"))), keyed, home=tmp_path) as gate:
        host = gate.host
        assert host.described["none"].missing == "no key"
        path.write_text("first")
        path.chmod(0o600)
        await until(lambda: "first" in host.providers)
        assert set(host.described) == {"first"}
        path.write_text("second")
        await until(lambda: "second" in host.providers)
        assert "first" not in host.providers
        assert "script" in host.providers
        assert keyed.heard == ["model_key", "model_key"]

        keyed.wrong = True
        path.write_text("third")
        await until(lambda: "secrets" in host.degraded)
        assert "no disk" in host.degraded["secrets"]
        assert "second" in host.providers
        keyed.wrong = False
        await until(lambda: "third" in host.providers)
        await until(lambda: "secrets" not in host.degraded)
        assert keyed.heard == ["model_key"] * 3


class Judging:
    """Keeps rules, which a reload may replace; brings a tool for each time that it is asked."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.next: str | Exception = "first"
        self.rules = "first"
        self.asked: list[str] = []
        self.put: Callable[[], None] | None = None

    @hookimpl
    async def reloading(self) -> Callable[[], None] | None:
        if isinstance(self.next, Exception):
            raise self.next
        rules = self.next
        return self.put or (lambda: setattr(self, "rules", rules))

    @hookimpl
    def list_tools(self) -> Sequence[Tool]:
        self.asked.append(self.rules)
        return [echo_tool(f"{self.name}_{self.rules}")]


async def test_rules_come_into_force_before_the_tools_that_they_judge_are_asked_for() -> None:
    one, two = Judging("one"), Judging("two")
    async with gateway(Scripted(Script(say("ok"))), one, two) as gate:
        assert (one.asked, two.asked) == (["first"], ["first"])
        one.next = two.next = "second"
        await gate.reload()
        assert (one.asked, two.asked) == (["first", "second"], ["first", "second"])
        assert {"one_second", "two_second"} <= set(gate.host.tools.view())


class Fewer:
    def __init__(self) -> None:
        self.bring: Callable[[], Any] = lambda: [echo_tool("former")]

    @hookimpl
    def list_tools(self) -> Any:
        return self.bring()


@pytest.mark.parametrize(
    ("bring", "kept"), [(list, False), (lambda: None, False), (lambda: 1 / 0, True)]
)
async def test_what_a_plugin_brings_no_more_is_gone_unless_it_could_not_say(
    bring: Callable[[], Any], kept: bool
) -> None:
    fewer = Fewer()
    async with gateway(Scripted(Script(say("ok"))), fewer) as gate:
        assert "former" in gate.host.tools.view()
        fewer.bring = bring
        await gate.reload()
        assert ("former" in gate.host.tools.view()) is kept


@pytest.mark.parametrize("failing", [0, 1])
async def test_where_one_plugin_fails_nothing_of_any_other_is_in_force(failing: int) -> None:
    both = [Judging("one"), Judging("two")]
    took: list[int] = []

    class Taking(Live):
        def take_settings(self, settings: Level) -> list[str]:
            took.append(settings.level)
            return []

    gate = Gateway(
        settings(),
        builtin=(),
        plugins=[Scripted(Script(say("ok"))), *both, Taking],
        read_settings=lambda: settings(live={"level": 5}),
    )
    async with gate:
        tools = dict(gate.host.tools.view())
        for number, plugin in enumerate(both):
            plugin.next = ValueError("line 3") if number == failing else "second"
        name = both[failing].name
        with pytest.raises(HookError, match=f"hook reloading of plugin '{name}' failed.*line 3"):
            await gate.reload()
        assert [plugin.rules for plugin in both] == ["first", "first"]
        assert dict(gate.host.tools.view()) == tools
        assert took == []
        both[failing].next = "second"
        await gate.reload()
        assert [plugin.rules for plugin in both] == ["second", "second"]
        assert took == [5]


async def test_what_cannot_be_put_into_force_is_named_and_no_tool_is_published() -> None:
    one, two = Judging("one"), Judging("two")

    def put() -> None:
        raise RuntimeError("no room")

    async with gateway(Scripted(Script(say("ok"))), one, two) as gate:
        one.next = two.next = "second"
        two.put = put
        with pytest.raises(PluginError, match=r"'two'.*`reloading`.*no room"):
            await gate.reload()
        assert one.rules == "second"
        assert one.asked == ["first"]
        assert "one_second" not in gate.host.tools.view()


async def test_what_is_no_function_is_no_answer_to_a_reload() -> None:
    class Odd:
        name = "odd"

        @hookimpl
        def reloading(self) -> Any:
            return ["rules"]

    async with gateway(Scripted(Script(say("ok"))), Odd()) as gate:
        with pytest.raises(HookError, match=r"'odd'.*returned a value of type list"):
            await gate.reload()


class Strict:
    """Rejects texts with a word of its settings, which it takes over while it runs."""

    name = "strict"

    class Settings(Section):
        word: str = "never"

    def __init__(self, settings: Settings) -> None:
        self.word = settings.word

    def take_settings(self, settings: Settings) -> list[str]:
        self.word = settings.word
        return []

    @hookimpl
    def sanitize_card(self, card: Card) -> Card | Rejected | None:
        return Rejected(reason=f"it says {self.word}") if self.word in card.text else None


async def test_a_sanitizer_with_changed_settings_judges_known_texts_again() -> None:
    read = [settings(), settings(strict={"word": "hello"})]
    gate = Gateway(
        settings(),
        builtin=(),
        plugins=[Scripted(Script(say("ok"))), Strict],
        read_settings=lambda: read.pop(0),
    )
    async with gate:
        host, card = gate.host, Card(id="a", text="hello there")
        assert await host.sanitize(card) == card
        version = host.sanitizers
        await gate.reload()
        assert host.sanitizers == version
        await gate.reload()
        assert host.sanitizers > version
        assert isinstance(await host.sanitize(card), Rejected)


async def test_a_soul_is_read_again_when_its_file_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runtime, "LOOK_SECONDS", 0.001)
    soul, script = tmp_path / "soul.md", Script(say("ok"), say("ok"), say("ok"))
    soul.write_text("You are brief.")
    values = {"agents": {"main": {"model": "script/script", "soul_file": str(soul)}}}
    chosen = Settings.model_validate({**values, "plugins": {"entry_points": False}})
    async with Gateway(chosen, builtin=(), plugins=[Scripted(script)]) as gate:
        await gate.chat("hello")
        soul.write_text("You are a pirate.")
        await until(lambda: gate.router.agents["main"].soul == "You are a pirate.")
        await gate.chat("hello again")

        soul.write_bytes(b"\xff\xfe of no text at all")
        await until(lambda: "souls" in gate.host.status()["degraded"])
        assert gate.router.agents["main"].soul == "You are a pirate."

        soul.write_text("You are brief, and well again.")
        await until(lambda: gate.router.agents["main"].soul == "You are brief, and well again.")
        assert "souls" not in gate.host.status()["degraded"]
    first, second = (str(request.system) for request in script.requests)
    assert "You are brief." in first
    assert "You are a pirate." in second
