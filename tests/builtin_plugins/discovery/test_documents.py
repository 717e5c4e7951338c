from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.builtin_plugins.discovery.searching import row

from hookgate.builtin_plugins.discovery.index.documents import (
    FIELDS,
    digest_of,
    text_of,
    weights_of,
)
from hookgate.core.domain.descriptors import Capability, CapabilityDetail, Flags

TEXTS = ("name", "display_name", "description", "category")
LISTS = ("tags", "parameters", "parameter_texts", "required_tools")
SEARCHED = (*TEXTS, *LISTS)

text = st.text(max_size=30)
texts = st.lists(text, max_size=4).map(tuple)
searched = st.fixed_dictionaries(dict.fromkeys(TEXTS, text) | dict.fromkeys(LISTS, texts))
others = st.fixed_dictionaries(
    {
        "id": text,
        "kind": st.sampled_from(["tool", "skill"]),
        "required_secrets": texts,
        "available": st.booleans(),
        "has_side_effects": st.booleans(),
        "flags": st.sampled_from([Flags(), Flags.none()]),
        "source_ref": text,
    }
)


def secretive() -> Capability:
    def load() -> CapabilityDetail:
        raise AssertionError("nobody may load it")

    return row(
        "postIssue",
        "Open an issue.",
        display_name="GitHub Issues",
        category="developer tools",
        tags=("tracker", "bugs"),
        parameters=("repoName", "title"),
        required_secrets=("GITHUB_TOKEN",),
        required_tools=("cli_executor",),
        source_ref="/home/ada/CAPABILITY.yaml",
        load=load,
    )


def test_text_holds_what_a_person_would_say() -> None:
    assert text_of(secretive()) == (
        "post Issue (Git Hub Issues). Open an issue.. Category: developer tools. "
        "Use cases: tracker, bugs. Parameters: repo Name, title. Requires: cli executor"
    )


def test_a_long_description_drives_nothing_else_out_of_the_text() -> None:
    long = replace(secretive(), description="Say much and more of it. " * 100)
    made = text_of(long)
    # 300 tokens of four characters each are the most.
    assert 1150 < len(made) <= 1200
    assert made.endswith(
        "Category: developer tools. Use cases: tracker, bugs. "
        "Parameters: repo Name, title. Requires: cli executor"
    )
    many = replace(long, tags=tuple(f"use case {number}" for number in range(500)))
    assert 1100 < len(text_of(many)) <= 1200
    assert "Say much" in text_of(many)
    assert text_of(many).endswith("Parameters: repo Name, title. Requires: cli executor")


@pytest.mark.parametrize("length", [80, 400, 1000])
def test_text_says_all_there_is_where_that_is_no_more_than_its_bound(length: int) -> None:
    said = ("word " * length)[:length].strip()
    assert said in text_of(replace(secretive(), description=said))


@pytest.mark.parametrize(
    ("said", "left"),
    [
        ("A name of the IANA database, such as ``Europe/Oslo``, or ``UTC``.", "oslo utc europ"),
        ("A city (e.g. Paris or New York) to look at", "pari york"),
        ("The place; for example 10115 or Berlin. Not a country", "10115 berlin"),
        ("When. Examples: 2024-05-01, May", "2024 05 01 may"),
    ],
)
def test_values_that_a_schema_gives_as_examples_are_not_searched(said: str, left: str) -> None:
    words = weights_of(row("look", "", parameters=("what",), parameter_texts=(said,)))
    assert not set(left.split()) & set(words)


def test_common_words_among_examples_say_what_is_meant() -> None:
    said = "Evidence (e.g., blood, fibers), such as DNA, of Oslo. In Bergen, too"
    words = weights_of(row("look", "", parameters=("what",), parameter_texts=(said,)))
    assert {"evid", "blood", "fiber", "bergen"} <= set(words)
    assert "oslo" not in words


def test_names_of_secrets_places_and_content_are_not_searched() -> None:
    said = " ".join([text_of(secretive()), *weights_of(secretive())])
    for hidden in ("token", "home", "ada", "yaml"):
        assert hidden not in said.casefold()


def test_name_for_people_is_said_once_where_it_is_the_name() -> None:
    assert text_of(row("send_mail", "Send.", display_name="Send Mail")) == "send mail. Send."


def test_text_of_nothing_is_short_and_no_error() -> None:
    assert text_of(row("", "")) == "."
    assert not weights_of(row("!!", "?"))


@given(searched, others)
def test_text_is_bounded_and_depends_on_what_is_searched_alone(
    said: dict[str, Any], more: dict[str, Any]
) -> None:
    one = replace(row("a"), **said)
    other = replace(row("b"), **(more | said))
    assert len(text_of(one)) <= 1200
    assert text_of(one) == text_of(other)
    assert weights_of(one) == weights_of(other)
    assert digest_of(one) == digest_of(other)


def test_huge_rows_have_bounded_texts() -> None:
    huge = row(
        "n" * 5000,
        "word number four. " * 5000,
        tags=("t" * 50,) * 500,
        parameters=tuple(f"parameter_{number}" for number in range(2000)),
    )
    assert 1000 < len(text_of(huge)) <= 1200


@given(searched, searched)
def test_digest_changes_with_anything_that_is_searched(
    one: dict[str, Any], other: dict[str, Any]
) -> None:
    same = digest_of(replace(row("a"), **one)) == digest_of(replace(row("a"), **other))
    assert same == (one == other)


@pytest.mark.parametrize("name", SEARCHED)
def test_digest_changes_with_each_searched_field(name: str) -> None:
    value: Any = "x" if name in TEXTS else ("x",)
    assert digest_of(replace(row("a"), **{name: value})) != digest_of(row("a"))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"name": "a\0b", "display_name": "c"}, {"name": "a", "display_name": "b\0c"}),
        ({"tags": ("a\x1fb",)}, {"tags": ("a", "b")}),
        ({"tags": ()}, {"tags": ("",)}),
        ({"tags": ("a",)}, {"parameters": ("a",)}),
        ({"description": "\ud800"}, {"description": "\\ud800"}),
    ],
)
def test_digest_tells_fields_apart_whatever_stands_in_them(
    one: dict[str, Any], other: dict[str, Any]
) -> None:
    assert digest_of(replace(row("n"), **one)) != digest_of(replace(row("n"), **other))


def test_words_weigh_by_where_they_stand() -> None:
    weights = weights_of(
        row(
            "mailer",
            "postman",
            display_name="Mailer Deluxe",
            category="office",
            tags=("letters",),
            parameters=("recipient",),
            parameter_texts=("whoever",),
        )
    )
    assert weights == {
        "mailer": FIELDS.name,
        "delux": FIELDS.name,
        "postman": FIELDS.description,
        "offic": FIELDS.category,
        "letter": FIELDS.tag,
        "recipi": FIELDS.parameter,
        "whoever": FIELDS.parameter_text,
    }


def test_words_that_come_again_weigh_more() -> None:
    assert (
        weights_of(row("mail", "mail, mails", tags=("mail",)))["mail"]
        == FIELDS.name + 2 + FIELDS.tag
    )


def test_a_field_that_counts_nothing_gives_no_words() -> None:
    without = replace(FIELDS, tag=0.0)
    assert weights_of(row("mail", tags=("letters",)), without) == {"mail": FIELDS.name}
