"""The installed plugin in a real gateway, with the model that comes with hookgate."""

from __future__ import annotations

from pathlib import Path

import pytest

from hookgate import Card, Gateway, MissingKeyError, Settings, Turn, hookimpl

BUILTIN = ("egress", "embedding", "providers")

CARDS = {
    "deployment": "Roll out a new version of a service, and roll it back",
    "billing": "Invoices, refunds and payment methods of customers",
    "databases": "Back up and restore PostgreSQL databases",
    "holidays": "Ask for days off, and see who is away",
    "kitchen": "What the canteen cooks this week",
}


class House:
    """Brings the cards, and may withhold some."""

    name = "house"

    def __init__(self, cards: dict[str, str], *withheld: str) -> None:
        self.cards = cards
        self.withheld = withheld

    @hookimpl
    def list_cards(self):
        return [
            Card(id=name, description=text, text=f"How to: {text}.")
            for name, text in self.cards.items()
        ]

    @hookimpl
    def withhold_capabilities(self):
        return self.withheld


async def say(
    home: Path, text: str, *withheld: str, cards: object = None, **settings: object
) -> Turn:
    config = Settings.model_validate({"home": home, "plugin": {"embedding_selector": settings}})
    house = House(CARDS if cards is None else cards, *withheld)
    async with Gateway(config, builtin=BUILTIN, plugins=[house]) as gateway:
        return await gateway.chat(f"/say {text}")


def best(turn: Turn) -> list[str]:
    return sorted(turn.selections, key=lambda row_id: -turn.selections[row_id].score)


async def test_nearest_card_comes_first(tmp_path: Path) -> None:
    turn = await say(tmp_path, "the new release is broken, we must revert it in production")

    assert best(turn)[0] == "card:deployment"
    assert "cosine" in turn.selections["card:deployment"].reason


async def test_words_that_no_card_has_are_found_by_their_meaning(tmp_path: Path) -> None:
    assert best(await say(tmp_path, "I want to go on vacation in June"))[0] == "card:holidays"
    assert best(await say(tmp_path, "a client wants his money back"))[0] == "card:billing"


async def test_three_cards_are_chosen_at_most(tmp_path: Path) -> None:
    turn = await say(tmp_path, "anything", at_least=-1)

    assert len(turn.selections) == 3


async def test_number_of_cards_and_the_least_score_are_settings(tmp_path: Path) -> None:
    assert len((await say(tmp_path, "anything", top=2, at_least=-1)).selections) == 2
    assert (await say(tmp_path, "anything", at_least=0.99)).selections == {}


async def test_withheld_card_makes_room_for_the_next(tmp_path: Path) -> None:
    text = "the new release is broken, we must revert it in production"
    turn = await say(tmp_path, text, "card:deployment", at_least=-1)

    assert len(turn.selections) == 3
    assert "card:deployment" not in turn.selections


async def test_gateway_without_cards_answers(tmp_path: Path) -> None:
    turn = await say(tmp_path, "hello", cards={})

    assert (turn.ending, turn.selections) == ("done", {})


async def test_changed_cards_are_embedded_anew_and_old_ones_are_forgotten(tmp_path: Path) -> None:
    house = House({"a": "Roll out a new version of a service"})
    config = Settings.model_validate({"home": tmp_path})
    async with Gateway(config, builtin=BUILTIN, plugins=[house]) as gateway:
        first = await gateway.chat("/say how do I deploy a service")
        house.cards = {"a": "What the canteen cooks this week"}
        await gateway.reload()
        second = await gateway.chat("/say what is for lunch in the canteen")

    assert best(first) == best(second) == ["card:a"]


async def test_without_an_embedder_the_start_says_what_is_missing(tmp_path: Path) -> None:
    config = Settings.model_validate({"home": tmp_path})

    with pytest.raises(MissingKeyError, match="embedder"):
        async with Gateway(config, builtin=("providers",)):
            pass
