from __future__ import annotations

import random
import time
from collections.abc import Sequence
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hookgate.builtin_plugins.discovery.index.graph import Edge, Graph
from hookgate.builtin_plugins.discovery.show.entries import EDGES, EdgeType, FoundCapability
from hookgate.core.domain.descriptors import Capability, CapabilityKind


def row(
    name: str,
    kind: CapabilityKind = "tool",
    *,
    category: str = "",
    tags: Sequence[str] = (),
    needs: Sequence[str] = (),
) -> Capability:
    return Capability(
        id=f"{kind}:{name}",
        kind=kind,
        name=name,
        category=category,
        tags=tuple(tags),
        required_tools=tuple(needs),
    )


def found(one: Capability, relevance: float) -> FoundCapability:
    return FoundCapability(row=one, relevance=relevance)


def shown(results: Sequence[FoundCapability]) -> list[tuple[str, float, str]]:
    return [(item.row.id, round(item.relevance, 6), item.pulled_by) for item in results]


GITHUB = row("github", "skill", category="developer-tools", needs=["cli-executor"])
CLI = row("cli-executor", category="developer-tools")
SEARCH = row("web-search", category="information", tags=["search", "web", "api"])
NEWS = row("news-search", category="information", tags=["search", "api", "news"])
BROWSER = row("web-browser", category="information", tags=["web"])
SUMMARIZER = row("summarizer", "skill")
ROWS = [GITHUB, CLI, SEARCH, NEWS, BROWSER, SUMMARIZER]
PRESETS = {"research": ["tool:web-search", "skill:summarizer"]}


# -- edges ---------------------------------------------------------------------------


def test_each_type_of_edge_has_its_weight() -> None:
    graph = Graph(ROWS, PRESETS)

    assert [(edge.target, edge.type) for edge in graph.edges("tool:web-search")] == [
        ("skill:summarizer", "COMPOSED_WITH"),
        ("tool:news-search", "TAGGED_WITH"),
        ("tool:news-search", "SAME_CATEGORY"),
        ("tool:web-browser", "SAME_CATEGORY"),
    ]
    assert [edge.weight for edge in graph.edges("tool:web-search")] == [0.5, 0.6, 0.1, 0.1]
    assert graph.edges("skill:github") == (
        Edge(source="skill:github", target="tool:cli-executor", type="DEPENDS_ON", weight=1.0),
    )
    assert len(graph) == 6


def test_a_dependency_goes_one_way() -> None:
    assert Graph(ROWS, {}).edges("tool:cli-executor") == ()


def test_shared_tags_leave_a_dependency_as_it_is() -> None:
    left = row("left", category="c", tags=["a", "b"], needs=["right"])
    right = row("right", category="c", tags=["A", "B"])
    graph = Graph([left, right], {"both": ["left", "right"]})

    assert [edge.type for edge in graph.edges("tool:left")] == list(EDGES)
    assert [edge.type for edge in graph.edges("tool:right")] == list(EDGES[1:])
    assert graph.edge_counts() == dict.fromkeys(EDGES, 1)


@pytest.mark.parametrize("needs", ["cli", "skill:cli"])
def test_a_requirement_is_a_tools_name_or_a_whole_id(needs: str) -> None:
    rows = [row("a", needs=[needs]), row("cli"), row("cli", "skill")]

    (edge,) = Graph(rows, {}).edges("tool:a")

    assert edge.target == (needs if ":" in needs else f"tool:{needs}")


def test_a_tool_with_an_id_of_its_own_is_required_by_its_name() -> None:
    own = Capability(id="acme.search", kind="tool", name="search")

    (edge,) = Graph([row("a", needs=["search"]), own], {}).edges("tool:a")

    assert edge.target == "acme.search"


def test_what_is_missing_is_named_with_who_asked_for_it() -> None:
    rows = [row("b", needs=["gone"]), row("a", needs=["gone", "skill:left"])]

    graph = Graph(rows, {"set": ["tool:a", "tool:gone"]})

    assert graph.missing == {
        "skill:left": ("tool:a",),
        "tool:gone": ("preset set", "tool:a", "tool:b"),
    }
    assert graph.edges("tool:a") == ()


def test_an_unknown_capability_has_no_edges() -> None:
    assert Graph(ROWS, PRESETS).edges("tool:unheard-of") == ()


@pytest.mark.parametrize(("size", "related"), [(1, 0), (2, 1), (8, 7), (9, 0)])
def test_a_category_relates_two_to_eight_of_one_kind(size: int, related: int) -> None:
    rows = [row(f"t{i}", category="c") for i in range(size)] + [row("s", "skill", category="c")]
    graph = Graph(rows, {})

    assert len(graph.edges("tool:t0")) == related
    assert graph.edges("skill:s") == ()
    assert graph.edge_counts()["SAME_CATEGORY"] == size * related // 2


def test_one_shared_tag_is_no_relation() -> None:
    rows = [row("a", tags=["x", "y"]), row("b", tags=["x", "X", "z"]), row("c", tags=["x"])]
    graph = Graph(rows, {})

    assert graph.edges("tool:a") == ()
    assert graph.edge_counts()["TAGGED_WITH"] == 0


def test_the_number_of_edges_that_are_returned_is_bounded() -> None:
    rows = [row(f"t{i:03}", tags=["x", "y"]) for i in range(200)]
    graph = Graph(rows, {})

    assert len(graph.edges("tool:t000")) == 50
    assert len(graph.edges("tool:t000", limit=3)) == 3
    assert graph.edge_counts()["TAGGED_WITH"] == 200 * 199 // 2


@pytest.mark.slow
def test_a_tag_and_a_preset_of_a_large_corpus_do_not_explode() -> None:
    rows = [row(f"t{i}", tags=["common", "usual", f"own{i}"]) for i in range(20_000)]
    started = time.process_time()

    graph = Graph(rows, {"all": [one.id for one in rows]})
    edges = graph.edges("tool:t7")
    counts = graph.edge_counts()
    results = graph.rerank([found(one, 0.5) for one in rows[:5]], boosts=EDGES)

    # All pairs would be 200 million edges; minutes, not seconds.
    assert time.process_time() - started < 20
    assert len(edges) == 50
    assert counts["TAGGED_WITH"] is None
    assert counts["COMPOSED_WITH"] is None
    assert len(results) == 5 + 3


# -- re-ranking ----------------------------------------------------------------------


def test_a_dependency_is_pulled_in_behind_what_was_found() -> None:
    graph = Graph(ROWS, PRESETS)

    results = graph.rerank([found(GITHUB, 0.9), found(BROWSER, 0.05)])

    assert shown(results) == [
        ("skill:github", 0.9, ""),
        ("tool:web-browser", 0.05, ""),
        ("tool:cli-executor", 0.135, "skill:github"),
    ]
    assert results[2].edge == "DEPENDS_ON"


def test_a_dependency_does_not_pull_in_what_depends_on_it() -> None:
    assert shown(Graph(ROWS, {}).rerank([found(CLI, 0.9)])) == [("tool:cli-executor", 0.9, "")]


def test_members_of_a_preset_pull_in_each_other() -> None:
    graph = Graph(ROWS, PRESETS)

    assert shown(graph.rerank([found(SUMMARIZER, 0.8)]))[1:] == [
        ("tool:web-search", 0.06, "skill:summarizer")
    ]
    assert shown(graph.rerank([found(SEARCH, 0.8)]))[1:] == [
        ("skill:summarizer", 0.06, "tool:web-search")
    ]


def test_whoever_gives_most_has_pulled_it_in() -> None:
    low = row("low", needs=["cli-executor"])
    graph = Graph([*ROWS, low], {})

    for order in ([found(GITHUB, 0.9), found(low, 0.2)], [found(low, 0.2), found(GITHUB, 0.9)]):
        assert shown(graph.rerank(order))[2:] == [("tool:cli-executor", 0.135, "skill:github")]


def test_what_was_pulled_in_pulls_in_nothing() -> None:
    rows = [row("a", needs=["b"]), row("b", needs=["c"]), row("c")]
    graph = Graph(rows, {})

    once = graph.rerank([found(rows[0], 0.9)])
    twice = graph.rerank(once)

    assert [item.row.name for item in once] == ["a", "b"]
    assert twice == once


def test_no_more_is_pulled_in_than_there_are_places() -> None:
    rows = [row("a", needs=["b", "c", "d", "e"]), *(row(name) for name in "bcde")]
    graph = Graph(rows, {})

    assert [item.row.name for item in graph.rerank([found(rows[0], 0.9)])] == ["a", "b", "c", "d"]
    assert graph.rerank([found(rows[0], 0.9)], places=0) == [found(rows[0], 0.9)]
    assert graph.rerank([found(rows[0], 0.9)], pulls=()) == [found(rows[0], 0.9)]


def test_what_is_not_admitted_leaves_its_place_to_the_next() -> None:
    rows = [row("a", needs=["b", "c"]), row("b"), row("c")]

    results = Graph(rows, {}).rerank(
        [found(rows[0], 0.9)], admit=lambda one: one.name != "b", places=1
    )

    assert [item.row.name for item in results] == ["a", "c"]


def test_cycles_and_self_dependencies_are_harmless() -> None:
    rows = [row("a", needs=["a", "b", "b"]), row("b", needs=["a"])]
    graph = Graph([*rows, *rows], {"p": ["a", "a"]})

    assert len(graph) == 2
    assert shown(graph.rerank([found(rows[0], 0.6)])) == [
        ("tool:a", 0.6, ""),
        ("tool:b", 0.09, "tool:a"),
    ]
    both = graph.rerank([found(one, 0.5) for one in rows], boosts=["DEPENDS_ON"])
    assert shown(both) == [("tool:a", 0.65, ""), ("tool:b", 0.65, "")]


def test_related_results_lift_each_other() -> None:
    graph = Graph(ROWS, PRESETS)
    results = graph.rerank(
        [found(BROWSER, 0.5), found(SEARCH, 0.45), found(NEWS, 0.4)],
        boosts=["TAGGED_WITH"],
        pulls=(),
    )

    # Two shared tags: 0.15 * 0.6 each.
    assert shown(results) == [
        ("tool:web-search", 0.54, ""),
        ("tool:web-browser", 0.5, ""),
        ("tool:news-search", 0.49, ""),
    ]
    assert [round(item.graph, 6) for item in results] == [0.09, 0.0, 0.09]


def test_a_lift_ends_at_one() -> None:
    results = Graph(ROWS, {}).rerank([found(GITHUB, 0.95), found(CLI, 0.2)], boosts=["DEPENDS_ON"])

    assert shown(results) == [("skill:github", 1.0, ""), ("tool:cli-executor", 0.35, "")]
    assert round(results[0].graph, 6) == 0.05


def test_where_nothing_is_lifted_the_order_stays() -> None:
    results = [found(BROWSER, 0.1), found(GITHUB, 0.9)]

    assert Graph(ROWS, {}).rerank(results, boosts=EDGES, pulls=()) == results


# -- whatever the rows ---------------------------------------------------------------

NAMES = [f"n{i}" for i in range(8)]
SOME = st.lists(st.sampled_from(NAMES), max_size=3)
KINDS: list[CapabilityKind] = ["tool", "skill"]
TYPES = st.sets(st.sampled_from(EDGES))


@st.composite
def corpora(draw: st.DrawFn) -> list[Capability]:
    names = draw(st.lists(st.sampled_from(NAMES), unique=True, max_size=8))
    return [
        row(
            name,
            draw(st.sampled_from(KINDS)),
            category=draw(st.sampled_from(["", "x", "y"])),
            tags=draw(st.lists(st.sampled_from("abcd"), max_size=4)),
            needs=draw(SOME),
        )
        for name in names
    ]


@st.composite
def searches(draw: st.DrawFn) -> tuple[Graph, list[FoundCapability], list[Capability]]:
    rows = draw(corpora())
    graph = Graph(rows, {"p": draw(SOME), "q": draw(SOME)})
    hits = [found(one, draw(st.floats(0, 1))) for one in rows if draw(st.booleans())]
    hits.sort(key=lambda item: (-item.relevance, item.row.id))
    return graph, hits, rows


@given(corpora(), SOME, st.integers())
def test_the_order_of_rows_does_not_matter(
    rows: list[Capability], preset: list[str], seed: int
) -> None:
    mixed = list(rows)
    random.Random(seed).shuffle(mixed)
    one, two = Graph(rows, {"p": preset}), Graph(mixed, {"p": preset[::-1]})

    for each in rows:
        assert one.edges(each.id) == two.edges(each.id)
        hits = [found(each, 0.7)]
        assert one.rerank(hits, pulls=EDGES) == two.rerank(hits, pulls=EDGES)
    assert one.missing == two.missing
    assert one.edge_counts() == two.edge_counts()


@given(corpora(), SOME)
def test_edges_are_as_defined(rows: list[Capability], preset: list[str]) -> None:
    graph = Graph(rows, {"p": preset})
    edges = {(edge.source, edge.target, edge.type): edge.weight for one in rows
             for edge in graph.edges(one.id)}  # fmt: skip
    tools = {one.name: one.id for one in rows if one.kind == "tool"}
    members = {tools[name] for name in preset if name in tools}

    expected: dict[tuple[str, str, EdgeType], float] = {}
    for one in rows:
        for name in one.required_tools:
            if name in tools and tools[name] != one.id:
                expected[one.id, tools[name], "DEPENDS_ON"] = 1.0
    for one, two in combinations(rows, 2):
        shared = len(set(one.tags) & set(two.tags))
        alike = one.category and (one.kind, one.category) == (two.kind, two.category)
        for pair in ((one.id, two.id), (two.id, one.id)):
            if {one.id, two.id} <= members:
                expected[*pair, "COMPOSED_WITH"] = 0.5
            if shared >= 2:
                expected[*pair, "TAGGED_WITH"] = 0.3 * shared
            if alike:
                expected[*pair, "SAME_CATEGORY"] = 0.1
    assert edges == expected
    assert graph.edge_counts() == {
        type_: sum(1 for edge in edges if edge[2] == type_) // (1 if type_ == "DEPENDS_ON" else 2)
        for type_ in EDGES
    }


@given(searches(), TYPES, st.integers(0, 4))
def test_without_boosts_what_was_found_stays_as_it_is(
    search: tuple[Graph, list[FoundCapability], list[Capability]], pulls: set[EdgeType], places: int
) -> None:
    graph, hits, _ = search

    results = graph.rerank(hits, pulls=pulls, places=places)

    assert results[: len(hits)] == hits
    assert len(results) <= len(hits) + places


@given(searches(), TYPES, TYPES)
def test_pulled_in_rows_are_admitted_new_and_weighed_by_the_formula(
    search: tuple[Graph, list[FoundCapability], list[Capability]],
    boosts: set[EdgeType],
    pulls: set[EdgeType],
) -> None:
    graph, hits, rows = search

    results = graph.rerank(
        hits, factor=0.2, boosts=boosts, pulls=pulls, admit=lambda one: one.kind == "tool"
    )

    pulled = results[len(hits) :]
    parents = {item.row.id: item for item in results[: len(hits)]}
    assert parents.keys() == {item.row.id for item in hits}
    assert [item.relevance for item in pulled] == sorted(
        (item.relevance for item in pulled), reverse=True
    )
    assert len({item.row.id for item in results}) == len(results)
    for item in pulled:
        assert item.row.kind == "tool"
        assert item.row in rows
        assert item.edge in pulls
        (edge,) = (
            edge
            for edge in graph.edges(item.pulled_by)
            if (edge.target, edge.type) == (item.row.id, item.edge)
        )
        best = parents[item.pulled_by].relevance * 0.2 * edge.weight
        assert item.relevance == pytest.approx(best)


@given(searches(), TYPES)
def test_every_gain_is_the_sum_of_the_edges_within_the_results(
    search: tuple[Graph, list[FoundCapability], list[Capability]], boosts: set[EdgeType]
) -> None:
    graph, hits, _ = search
    before = {item.row.id: item.relevance for item in hits}
    joined = {
        (frozenset((edge.source, edge.target)), edge.type): edge.weight
        for id_ in before
        for edge in graph.edges(id_)
        if edge.target in before and edge.type in boosts
    }

    results = graph.rerank(hits, boosts=boosts, pulls=())

    assert [(-item.relevance, item.row.id) for item in results] == sorted(
        (-item.relevance, item.row.id) for item in results
    )
    for item in results:
        gain = sum(0.15 * weight for (pair, _), weight in joined.items() if item.row.id in pair)
        assert item.relevance == pytest.approx(min(1.0, before[item.row.id] + gain))
        assert item.graph == pytest.approx(item.relevance - before[item.row.id])
