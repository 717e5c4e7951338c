from __future__ import annotations

import time
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hookgate.builtin_plugins.awareness.selection.router import SCANNED_CHARS, Keywords, fold
from hookgate.builtin_plugins.awareness.selection.selector import (
    CUT_MARKER,
    CardMatcher,
    CardQuestion,
    JudgedCard,
    cap_of,
    cut,
    fit,
    force,
    order,
    refuse,
    tokens_of,
)
from hookgate.core.domain.descriptors import Card, Flags, Triggers


def card(
    name: str = "a",
    *,
    text: str = "text",
    priority: int = 5,
    max_chars: int = 2400,
    token_budget: int = 600,
    **triggers: object,
) -> Card:
    return Card(
        id=name,
        text=text,
        priority=priority,
        max_chars=max_chars,
        token_budget=token_budget,
        triggers=Triggers(**triggers),  # type: ignore[arg-type]  # by the names of its fields
    )


def judge(one: Card, message: str, *, tags: str = "", session: str = "main") -> JudgedCard:
    (judged,) = CardMatcher({one.id: one}).judge(
        CardQuestion(
            message=message, tags=frozenset(tags.split()), session_type=session, point="bootstrap"
        )
    )
    return judged


# -- keywords ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("keyword", "message", "times"),
    [
        ("memory", "My MEMORY, your memory.", 2),
        ("memory", "memories and memoryless", 0),
        ("c++", "I write C++ and c++, not c++11", 2),
        ("c++", "abc++", 0),
        (".env", "put it in .env or ./.env", 2),
        (".env", ".environment, prod.env", 0),
        ("node.js", "nodeXjs node.js", 1),
        ("(a|b)*", "the pattern (a|b)* matches", 1),
        ("keep in mind", "Keep  in\nmind that", 1),
        ("what's new", "What\u2019s new?", 1),
        ("\u8a18\u61b6", "\u79c1\u306e\u8a18\u61b6\u3092\u6d88\u3057\u3066", 1),
        ("\u0e08\u0e33", "\u0e04\u0e38\u0e13\u0e08\u0e33\u0e44\u0e14\u0e49\u0e44\u0e2b\u0e21", 1),
        ("stra\u00dfe", "die STRASSE", 1),
        ("caf\u00e9", "a cafe\u0301 in Paris", 1),
        ("\u092f\u093e\u0926", "\u092e\u0941\u091d\u0947 \u092f\u093e\u0926 \u0939\u0948", 1),
        # The vowel sign behind it makes another word of it.
        ("\u092f\u093e\u0926", "\u092f\u093e\u0926\u0947\u0902", 0),
        ("\uff4d\uff45\uff4d\uff4f\uff52\uff59", "memory", 1),
        ("snake", "snake_case", 0),
        ("api", "\u4f7f\u7528API\u7684", 1),
        ("\u306eapi", "\u79c1\u306eAPI\u3092", 1),
        ("--explain", "turn --explain now", 1),
        ("&&", "a && b &&", 2),
    ],
)
def test_a_keyword_is_found_as_a_whole_word(keyword: str, message: str, times: int) -> None:
    found = Keywords([keyword]).count(fold(message))
    assert sum(found.values()) == times
    assert Keywords([keyword]).held(fold(message)) == bool(times)


def test_keywords_that_come_to_the_same_count_once() -> None:
    assert Keywords(["Memory", "memory", " MEMORY ", ""]).names == ("Memory",)


def test_of_a_long_message_the_beginning_and_the_end_are_searched() -> None:
    paste = "x " * SCANNED_CHARS * 2
    keywords = Keywords(["first", "middle", "last", "x first"])
    found = keywords.count(fold(f"first {paste} middle {paste} last"))
    assert set(found) == {"first", "last"}


def test_beginning_and_end_of_a_long_message_make_no_word_together() -> None:
    message = "a" * (SCANNED_CHARS - 4) + " mem" + "b" * 50 + "ory " + "c" * (SCANNED_CHARS - 4)
    assert not Keywords(["memory", "mem ory"]).count(fold(message))


PIECES = st.lists(
    st.sampled_from(
        ["a", "B", "1", "_", " ", "-", "+", "\u8a18", "\u0e08", "\u0301", "\u00df", "\n"]
    ),
    max_size=8,
).map("".join)


@given(PIECES, PIECES, PIECES)
def test_a_keyword_between_blanks_is_always_found(before: str, keyword: str, after: str) -> None:
    keywords = Keywords([keyword])
    if keywords.names:
        assert keywords.count(fold(f"{before} . {keyword} . {after}"))


@given(st.text(max_size=80), st.text(max_size=300))
def test_any_text_may_be_a_keyword_or_a_message(keyword: str, message: str) -> None:
    keywords = Keywords([keyword])
    found = keywords.count(fold(message))
    assert keywords.held(fold(message)) == bool(found)
    if keywords.names:
        assert keywords.count(fold(keyword))


# -- the score -----------------------------------------------------------------------


def test_a_router_tag_is_worth_the_whole_score() -> None:
    one = judge(card(router_tags=("memory", "tools")), "hello", tags="memory debug")
    assert (one.score, one.chosen, one.reason) == (1.0, True, "router tag memory")


def test_keywords_count_by_their_share_and_by_how_often_they_are_there() -> None:
    keywords = ("remember", "recall", "forget", "note", "memory")
    high = card(keywords=keywords, confidence_threshold=0.5)
    one = judge(high, "remember this, and remember to recall it")
    assert one.score == pytest.approx(0.7 * 2 / 5 + 0.3 * 3 / 50)
    assert not one.chosen
    assert one.reason == "2 of 5 keywords: remember, recall: 0.30, below its threshold 0.5"
    low = judge(card(keywords=keywords, confidence_threshold=0.29), "remember to recall, remember")
    assert low.chosen
    assert low.reason == "2 of 5 keywords: remember, recall"


@pytest.mark.parametrize("others", [2, 9])
def test_one_keyword_is_enough_where_a_card_names_no_threshold(others: int) -> None:
    keywords = ("weather", *(f"something else {n}" for n in range(others)))
    one = judge(card(keywords=keywords), "the weather in Oslo")
    assert one.chosen
    # It is still ranked by how well it fits.
    assert one.score == pytest.approx(0.7 / len(keywords) + 0.3 / 50)
    assert not judge(card(keywords=keywords), "a walk in Oslo").chosen


def test_many_occurrences_count_no_more_than_fifty() -> None:
    assert judge(card(keywords=("tea",)), "tea " * 60).score == pytest.approx(1.0)


def test_without_a_message_the_priority_is_the_score() -> None:
    assert judge(card(priority=12, keywords=("tea",)), " \n").score == pytest.approx(0.6)
    assert judge(card(priority=12), "").chosen
    assert not judge(card(priority=11), "").chosen


def test_a_card_without_triggers_is_not_shown_for_a_message() -> None:
    one = judge(card(), "hello")
    assert (one.score, one.chosen) == (0.0, False)


def test_a_threshold_that_is_just_reached_is_enough() -> None:
    keywords = ("tea", "coffee")
    score = judge(card(keywords=keywords), "tea").score
    assert judge(card(keywords=keywords, confidence_threshold=score), "tea").chosen


def test_session_type_and_point_hold_whatever_the_score() -> None:
    main = card(router_tags=("memory",), session_types=("main",))
    judged = judge(main, "", tags="memory", session="isolated")
    assert (judged.chosen, judged.reason) == (False, "not for isolated sessions")
    late = card(router_tags=("memory",), inject_at=("post_tool",))
    judged = judge(late, "", tags="memory")
    assert not judged.chosen
    assert "only at post_tool" in judged.reason


@given(
    st.lists(st.text(max_size=12), max_size=8),
    st.text(max_size=200),
    st.integers(-5, 30),
    st.floats(0, 1),
    st.booleans(),
)
def test_a_score_is_between_none_and_all(
    keywords: list[str], message: str, priority: int, threshold: float, tagged: bool
) -> None:
    one = card(
        priority=priority,
        keywords=tuple(keywords),
        router_tags=("t",),
        confidence_threshold=threshold,
    )
    judged = judge(one, message, tags="t" if tagged else "")
    assert 0 <= judged.score <= 1
    said = bool(message.strip()) and judged.score > 0
    assert judged.chosen == (judged.score >= threshold or (threshold == 0.6 and said))
    assert judged.reason
    assert judged.to_json()["id"] == "a"


def test_thirty_cards_are_judged_in_a_fraction_of_a_millisecond() -> None:
    keywords = tuple(f"a phrase of some length {n}" for n in range(10))
    matcher = CardMatcher({f"c{n}": card(f"c{n}", keywords=keywords) for n in range(30)})
    taken = []
    for _ in range(20):
        begun = time.process_time()
        matcher.judge(
            CardQuestion(
                message="how do I find out who allowed that call last night?",
                tags=frozenset({"memory"}),
                session_type="main",
                point="mid",
            )
        )
        taken.append(time.process_time() - begun)
    # 0.1 ms on the machine that it was written on.
    assert min(taken) < 0.002


# -- after tools ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("triggers", "flags", "chosen"),
    [
        ({"tools": ("http_*",)}, Flags.none(), True),
        ({"tools": ("HTTP_*",)}, Flags.none(), False),
        ({"tools": ("read_file",)}, Flags.none(), False),
        ({"flags": ("sends_externally",)}, Flags.none(), False),
        ({"flags": ("sends_externally",)}, replace(Flags.none(), sends_externally=True), True),
        ({"flags": ("sends_externally",)}, Flags(), True),
        ({"flags": ("no_such_flag",)}, Flags(), False),
        ({}, Flags(), False),
    ],
)
def test_a_card_applies_after_tools_that_it_names(
    triggers: dict[str, tuple[str, ...]], flags: Flags, chosen: bool
) -> None:
    one = card(inject_at=("post_tool",), **triggers)
    (judged,) = CardMatcher({"a": one}).after_tools([("clock", Flags.none()), ("http_get", flags)])
    assert (judged.chosen, judged.score) == (chosen, float(chosen))
    assert judged.reason


def test_a_card_for_other_points_or_sessions_does_not_apply_after_tools() -> None:
    used = [("http_get", Flags())]
    matcher = CardMatcher({"a": card(tools=("*",))})
    assert not matcher.after_tools(used)[0].chosen
    late = card(tools=("*",), inject_at=("post_tool",), session_types=("main",))
    matcher = CardMatcher({"a": late})
    assert not matcher.after_tools(used, session_type="isolated")[0].chosen
    assert matcher.after_tools(used, session_type="main")[0].chosen


# -- order, force, budgets -----------------------------------------------------------

CARDS = st.lists(
    st.builds(
        card,
        st.text("abcdef", min_size=1, max_size=6),
        text=st.text(max_size=400),
        priority=st.integers(0, 20),
        max_chars=st.integers(0, 500),
        token_budget=st.integers(0, 120),
    ),
    max_size=12,
    unique_by=lambda one: one.id,
)
JUDGED = CARDS.flatmap(
    lambda cards: st.tuples(
        *(
            st.builds(
                JudgedCard,
                card=st.just(one),
                score=st.floats(0, 1),
                reason=st.just("why"),
                chosen=st.booleans(),
            )
            for one in cards
        )
    )
)


@given(JUDGED, st.randoms())
def test_the_order_is_by_priority_then_score_then_id(
    judged: tuple[JudgedCard, ...], random
) -> None:  # type: ignore[no-untyped-def]  # hypothesis has no public type
    mixed = list(judged)
    random.shuffle(mixed)
    ordered = order(mixed)
    assert ordered == order(judged)
    chosen = [one for one in ordered if one.chosen]
    assert ordered[: len(chosen)] == chosen
    keys = [(-one.card.priority, -one.score, one.card.id) for one in chosen]
    assert keys == sorted(keys)


@given(JUDGED, st.integers(-10, 400))
def test_a_budget_is_kept_and_whatever_fits_is_shown(
    judged: tuple[JudgedCard, ...], budget: int
) -> None:
    decisions = fit(judged, budget)
    assert [one.judged.card.id for one in decisions] == [one.card.id for one in judged]
    shown = [one for one in decisions if one.judged.chosen]
    assert sum(one.tokens for one in shown) <= max(budget, 0)
    assert tokens_of("".join(one.text for one in shown)) <= max(budget, 0)
    left = max(budget, 0)
    for before, after in zip(judged, decisions, strict=True):
        wanted = tokens_of(cut(before.card.text, cap_of(before.card)))
        assert after.judged.chosen == (before.chosen and wanted <= left)
        left -= after.tokens
        assert len(after.text) <= cap_of(before.card)


def test_a_card_that_does_not_fit_is_passed_over_with_a_reason() -> None:
    judged = [
        JudgedCard(card=card("big", text="x" * 1200), score=1, reason="tag", chosen=True),
        JudgedCard(card=card("small", text="y" * 400), score=1, reason="tag", chosen=True),
    ]
    big, small = fit(judged, 120)
    assert not big.judged.chosen
    assert big.judged.reason == "does not fit: 300 tokens, 120 of 120 left"
    assert (small.judged.chosen, small.tokens, small.text) == (True, 100, "y" * 400)


def test_what_frames_a_card_counts() -> None:
    judged = [JudgedCard(card=card(text="x" * 40), score=1, reason="tag", chosen=True)]
    (decision,) = fit(judged, 20, lambda one, text: f"## {one.id}\n{text}\n\n")
    assert decision.text == f"## a\n{'x' * 40}\n\n"
    assert decision.tokens == tokens_of(decision.text) == 12
    assert decision.to_json()["tokens"] == 12


def test_forced_cards_come_first_past_their_threshold_and_within_the_budget() -> None:
    cards = {
        "high": card("high", text="h" * 80, priority=20, router_tags=("t",)),
        "forced": card("forced", text="f" * 80, priority=1, session_types=("isolated",)),
        "huge": card("huge", text="x" * 2000),
    }
    judged = CardMatcher(cards).judge(
        CardQuestion(message="hi", tags=frozenset({"t"}), session_type="main", point="mid")
    )
    forced = order(force(judged, {"forced", "huge"}))
    assert [one.card.id for one in forced] == ["huge", "forced", "high"]
    shown = [one.judged.card.id for one in fit(forced, 30) if one.judged.chosen]
    assert shown == ["forced"]
    assert forced[1].reason == "forced"


def test_excluding_wins_over_forcing() -> None:
    judged = [JudgedCard(card=card(), score=1, reason="tag", chosen=True)]
    (one,) = refuse(force(judged, {"a"}), {"a"}, "excluded")
    assert (one.chosen, one.forced, one.reason) == (False, False, "excluded")


# -- cutting -------------------------------------------------------------------------


@given(st.text(max_size=300), st.integers(-2, 320))
def test_a_cut_text_keeps_to_its_cap_marker_included(text: str, cap: int) -> None:
    short = cut(text, cap)
    assert len(short) <= max(cap, 0)
    if len(text) <= cap:
        assert short == text
    elif cap > len(CUT_MARKER):
        assert short.endswith(CUT_MARKER)
        assert text.startswith(short.removesuffix(CUT_MARKER))
        assert cut(short, cap) == short


def test_a_cut_is_at_the_end_of_a_line_or_of_a_word() -> None:
    assert cut("first line\nsecond line\nthird line", 30) == f"first line\nsecond line{CUT_MARKER}"
    assert cut("one two three four", 17) == f"one two{CUT_MARKER}"
    assert cut("x" * 40, 20) == "x" * (20 - len(CUT_MARKER)) + CUT_MARKER


def test_a_cap_is_the_less_of_characters_and_tokens() -> None:
    assert cap_of(card(max_chars=100, token_budget=20)) == 80
    assert cap_of(card(max_chars=50, token_budget=20)) == 50
    assert [tokens_of("x" * count) for count in (0, 1, 4, 5)] == [0, 1, 1, 2]


# -- many cards ----------------------------------------------------------------------


WORDS = st.sampled_from(["tea", "green tea", "milk", "c++", "\u8a18\u61b6", "--explain", "\u0301"])
TAGS = st.sampled_from(["config", "memory", "tools"])
CARDS = st.lists(
    st.builds(
        lambda keywords, tags, threshold, points, flags: card(
            keywords=tuple(keywords),
            router_tags=tuple(tags),
            confidence_threshold=threshold,
            inject_at=tuple(points),
            flags=tuple(flags),
            tools=("http_*",) if "memory" in tags else (),
        ),
        st.lists(WORDS, max_size=4),
        st.lists(TAGS, max_size=2),
        st.sampled_from([0.0, 0.3, 0.6, 0.9]),
        st.sets(st.sampled_from(["bootstrap", "mid", "post_tool"])),
        st.lists(st.sampled_from(["sends_externally", "no_such_flag"]), max_size=1),
    ),
    max_size=12,
).map(lambda cards: {f"c{n}": replace(one, id=f"c{n}") for n, one in enumerate(cards)})


@given(
    CARDS,
    st.lists(st.one_of(WORDS, st.text(max_size=5)), max_size=6).map(" ".join),
    st.frozensets(TAGS),
    st.sampled_from(["main", "isolated"]),
)
def test_cards_that_something_speaks_for_are_those_with_a_score_or_a_place(
    cards: dict[str, Card], message: str, tags: frozenset[str], session: str
) -> None:
    """Looking words and tags of all cards up together decides as judging each of them does."""
    asking = CardQuestion(message=message, tags=tags, session_type=session, point="mid")
    matcher = CardMatcher(cards)
    every = matcher.judge(asking)
    assert [one.card.id for one in every] == list(cards)
    found = matcher.found(asking)
    assert [one for one in every if one.chosen or one.score] == [
        one for one in found if one.chosen or one.score
    ]
    assert all(one in every for one in found)
    assert [matcher.judge_one(name, asking) for name in cards] == every
    some = frozenset(list(cards)[::2])
    always = list(cards)[:3]
    there = matcher.found(asking, some.__contains__, always=[*always, "gone"])
    assert there == [
        one for one in every if one.card.id in some and (one in found or one.card.id in always)
    ]


@given(
    CARDS,
    st.lists(
        st.tuples(
            st.sampled_from(["http_get", "clock"]),
            st.sampled_from([Flags(), Flags.none(), replace(Flags.none(), sends_externally=True)]),
        ),
        max_size=3,
    ),
    st.sampled_from(["main", "isolated"]),
)
def test_cards_that_tools_call_for_are_found_as_when_each_is_judged(
    cards: dict[str, Card], tools: list[tuple[str, Flags]], session: str
) -> None:
    matcher = CardMatcher(cards)
    for _ in range(2):
        every = matcher.after_tools(tools, session_type=session)
        assert matcher.called_for(tools, session_type=session) == [
            one for one in every if one.chosen
        ]


def test_a_card_that_has_nothing_to_do_with_a_message_costs_next_to_nothing() -> None:
    def cost(count: int) -> float:
        cards = {
            f"c{n}": replace(
                card(keywords=(f"tea {n}", f"milk {n}"), router_tags=("t",)), id=f"c{n}"
            )
            for n in range(count)
        }
        matcher, taken = CardMatcher(cards), []
        asking = CardQuestion(
            message="what is the capital of France?",
            tags=frozenset({"memory"}),
            session_type="main",
            point="mid",
        )
        for _ in range(20):
            begun = time.process_time()
            assert matcher.found(asking) == []
            taken.append(time.process_time() - begun)
        return min(taken)

    # Each of them took 15 microseconds where it was judged.
    assert cost(2000) - cost(2) < 2000 * 1e-6
