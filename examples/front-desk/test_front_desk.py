"""The installed plugin in a real gateway, beside the builtin ones."""

from __future__ import annotations

from pathlib import Path

from hookgate import CONVERSATIONS, Gateway, Settings


def settings(home: Path, **more: object) -> Settings:
    """Settings of a gateway with the plugin."""
    return Settings.model_validate({"home": home, "plugin": {"front_desk": more}})


async def test_numbers_of_cards_are_never_stored(tmp_path: Path) -> None:
    async with Gateway(settings(tmp_path)) as gateway:
        turn = await gateway.chat("charge 4111 1111 1111 1111 please")
        stored = await gateway.host[CONVERSATIONS].history(turn.session, turns=9)

    assert turn.message.text == "charge [card number] please"
    assert not [message for message in stored if "4111" in message.text]


async def test_what_is_asked_all_day_is_answered_without_a_model(tmp_path: Path) -> None:
    answers = {"opening hours": "We are open from 9 to 5."}
    async with Gateway(settings(tmp_path, answers=answers)) as gateway:
        turn = await gateway.chat("What are your Opening Hours?")

    assert turn.answer == "We are open from 9 to 5."
    assert turn.usage.input_tokens == 0


async def test_the_tool_calls_others_which_stand_in_the_turn(tmp_path: Path) -> None:
    async with Gateway(settings(tmp_path)) as gateway:
        turn = await gateway.chat('/call arrival {"minutes": 90}')

    assert [one.call.name for one in turn.calls] == ["clock", "calculate", "arrival"]
    assert turn.calls[-1].result.text.startswith("1.5 hours from")


async def test_what_the_operator_denies_does_not_run_within_it(tmp_path: Path) -> None:
    config = Settings.model_validate({"home": tmp_path, "plugin": {"policy": {"deny": ["clock"]}}})
    async with Gateway(config) as gateway:
        turn = await gateway.chat('/call arrival {"minutes": 90}')

    assert turn.calls[0].result.status == "denied"
    assert "denied" in turn.calls[-1].result.text
