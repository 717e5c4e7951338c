from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hookgate.builtin_plugins.discovery.lexical import LexicalIndex, words_of
from hookgate.core.descriptors import Capability


def row(name: str, description: str = "", **more: object) -> Capability:
    return Capability(
        id=f"tool:{name}",
        kind="tool",
        name=name,
        description=description,
        **more,  # type: ignore[arg-type]
    )


ROWS = [
    row("send_mail", "Send a message to somebody.", tags=("email", "smtp")),
    row("webSearch", "Search the web for current information."),
    row("calculate", "Compute an arithmetic expression exactly.", category="math"),
    row("read_file", "Read a text file below the granted folders."),
    row("weather", "Tell the forecast for a city."),
]


@pytest.mark.parametrize(
    ("query", "name"),
    [
        ("send an e-mail to Bob", "send_mail"),
        ("EMAILS", "send_mail"),
        ("web searches", "webSearch"),
        ("math", "calculate"),
        ("what are the forecasts for my cities?", "weather"),
        ("open this text file", "read_file"),
    ],
)
def test_capability_is_found_by_name_tag_category_and_description(query: str, name: str) -> None:
    assert LexicalIndex(ROWS).search(query)[0].row.name == name


def test_words_are_compared_without_case_number_and_common_words() -> None:
    assert words_of("Please show me the HTTPServers of my_queries") == ["httpserver", "query"]
    assert words_of("sendMail2 ＭＡＩＬＳ glass status") == [
        "send",
        "mail2",
        "mail",
        "glass",
        "status",
    ]
    assert words_of("what is it?") == []


def test_name_weighs_more_than_tag_and_tag_more_than_description() -> None:
    index = LexicalIndex([row("x1", "deploy now"), row("x2", tags=("deploy",)), row("deploy")])
    assert [hit.row.name for hit in index.search("deploy")] == ["deploy", "x2", "x1"]


def test_words_that_nothing_holds_weaken_a_chance_match() -> None:
    index = LexicalIndex(ROWS)
    alone = index.search("city")[0]
    among = index.search("city budget negotiations tomorrow")[0]
    assert alone.row.name == among.row.name == "weather"
    assert among.relevance < alone.relevance / 2


def test_hit_names_the_words_that_it_holds() -> None:
    assert LexicalIndex(ROWS).search("send nothing by email")[0].words == ("send", "email")


def test_nothing_is_found_in_nothing_and_by_nothing() -> None:
    assert LexicalIndex([]).search("mail") == []
    assert LexicalIndex(ROWS).search("") == []
    assert LexicalIndex(ROWS).search("zebra") == []


texts = st.lists(
    st.sampled_from(["mail", "web", "search", "file", "city", "the", "of", "x", "yy"]), max_size=12
).map(" ".join)


@given(st.lists(texts, max_size=8), texts)
def test_relevance_is_between_zero_and_one_and_sorted(descriptions: list[str], query: str) -> None:
    rows = [row(f"n{number}", text) for number, text in enumerate(descriptions)]
    hits = LexicalIndex(rows).search(query)
    relevances = [hit.relevance for hit in hits]
    assert relevances == sorted(relevances, reverse=True)
    assert all(0 < relevance < 1 for relevance in relevances)
    asked = set(words_of(query))
    assert {hit.row.name for hit in hits} == {
        item.name for item in rows if asked & set(words_of(f"{item.name} {item.description}"))
    }
