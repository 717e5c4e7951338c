from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from hookgate.core.domain.messages import Message, ToolResultPart, ToolUse
from hookgate.core.domain.models import ModelRef, ModelRequest, SystemText
from hookgate.core.domain.parts import Text
from hookgate.core.host import QuarterTokens
from hookgate.core.turn.context import (
    PRIORITIES,
    Block,
    ContextBuilder,
    group_turns,
    message_tokens,
)

COUNTER = QuarterTokens()
KINDS = st.sampled_from(sorted(PRIORITIES))
BLOCKS = st.builds(
    Block,
    kind=KINDS,
    text=st.text(min_size=1, max_size=400),
    plugin=st.just("p"),
    tokens=st.integers(0, 50),
    priority=st.integers(-3, 3),
    stable=st.booleans(),
)


def message(text: str, turn: str, role: str = "user") -> Message:
    return Message(role=role, parts=(Text(text),), turn=turn)  # type: ignore[arg-type]


TURNS = st.lists(st.lists(st.text(max_size=200), min_size=1, max_size=3), max_size=6)
FLOORS = st.dictionaries(KINDS, st.integers(0, 300))
CAPS = st.dictionaries(KINDS, st.integers(0, 300))


@given(
    budget=st.integers(0, 800),
    blocks=st.lists(BLOCKS, max_size=12),
    turns=TURNS,
    floors=FLOORS,
    caps=CAPS,
)
def test_the_budget_and_the_caps_hold_and_nothing_gets_lost(
    budget: int,
    blocks: list[Block],
    turns: list[list[str]],
    floors: dict[str, int],
    caps: dict[str, int],
) -> None:
    builder = ContextBuilder(budget=budget, counter=COUNTER, floors=floors, caps=caps)
    for block in blocks:
        builder.add(block)
    history = [[message(text, str(n)) for text in turn] for n, turn in enumerate(turns)]
    builder.add_history(history)
    context = builder.pack(())
    assert context.tokens <= budget
    assert context.tokens == sum(context.by_kind.values())
    for kind, cap in caps.items():
        assert context.by_kind.get(kind, 0) <= cap
    kept_turns = [turn for turn in history if turn[0] in context.history]
    assert len(context.system) + len(kept_turns) + len(context.left_out) == len(blocks) + len(turns)


@given(budget=st.integers(0, 300), turns=TURNS)
def test_history_is_cut_at_its_old_end_and_turns_stay_whole(
    budget: int, turns: list[list[str]]
) -> None:
    builder = ContextBuilder(budget=budget, counter=COUNTER)
    history = [[message(text, str(n)) for text in turn] for n, turn in enumerate(turns)]
    builder.add_history(history)
    kept = list(builder.pack(()).history)
    flat = [item for turn in history for item in turn]
    assert kept == flat[len(flat) - len(kept) :]
    assert not kept or kept[0] in [turn[0] for turn in history]


@given(st.lists(BLOCKS, max_size=12))
def test_stable_blocks_come_first(blocks: list[Block]) -> None:
    builder = ContextBuilder(budget=100_000, counter=COUNTER)
    for block in blocks:
        builder.add(block)
    stable = [piece.stable for piece in builder.pack(()).system]
    assert stable == sorted(stable, reverse=True)


def test_every_kind_gets_its_floor_before_the_rest_is_shared() -> None:
    builder = ContextBuilder(budget=100, counter=COUNTER, floors={"tiers": 30})
    builder.add(Block(kind="soul", text="s" * 280))
    builder.add(Block(kind="recall", text="r" * 280))
    builder.add(Block(kind="tiers", text="t" * 120))
    context = builder.pack(())
    assert context.by_kind == {"tiers": 30, "soul": 70}
    assert [(item.kind, item.tokens) for item in context.left_out] == [("recall", 70)]


def test_a_plugin_cannot_claim_fewer_tokens_than_its_text_takes() -> None:
    builder = ContextBuilder(budget=10, counter=COUNTER)
    builder.add(Block(kind="cards", text="x" * 400, tokens=1))
    assert builder.pack(()).system == ()


def test_the_turns_own_messages_count_first() -> None:
    own = [message("x" * 400, "now")]
    builder = ContextBuilder(budget=110, counter=COUNTER)
    builder.add(Block(kind="soul", text="y" * 100))
    context = builder.pack(own)
    assert context.system == ()
    assert context.tokens == message_tokens(own[0], COUNTER) > 100


def test_results_of_a_turn_before_belong_to_it() -> None:
    use = ToolUse(id="c", name="t", input={})
    asked = Message(role="assistant", parts=(use,), turn="1")
    brought = ToolResultPart(tool_use_id="c", content="r")
    answer = Message(role="tool", parts=(brought,), turn="2")
    rest = message("thanks", "2", "assistant")
    first = message("go", "1")
    assert group_turns([first, asked, answer, rest]) == [[first, asked, answer, rest]]
    assert group_turns([answer, rest, message("new", "3")]) == [[message_of("new", "3")]]


class message_of:
    """Compares by text and turn."""

    def __init__(self, text: str, turn: str) -> None:
        self.wanted = (text, turn)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Message) and (other.text, other.turn) == self.wanted

    def __hash__(self) -> int:
        return hash(self.wanted)


def test_each_piece_says_whose_block_it_is_and_of_which_kind_and_key() -> None:
    builder = ContextBuilder(budget=1000, counter=COUNTER)
    builder.plugin = "mine"
    ids = [
        builder.add(Block(kind="cards", key="tea", text="Tea.")),
        builder.add(Block(kind="cards", key="a b\n\ud800", text="Odd.")),
        builder.add(Block(kind="soul", text="Kind.", plugin="core")),
    ]
    assert ids == ["mine/cards/tea", "mine/cards/a%20b%0A%ED%A0%80", "core/soul"]
    system = builder.pack(()).system
    assert {piece.source: piece.text for piece in system} == dict(
        zip(ids, ("Tea.", "Odd.", "Kind."), strict=True)
    )
    asked = ModelRequest(model=ModelRef("p", "m"), system=system)
    assert asked.sources == {piece.source: piece.text for piece in system}


def test_a_joined_piece_keeps_text_taint_and_sources_of_all() -> None:
    one = SystemText(text="One.", stable=True, source="a/other")
    two = SystemText(text="Two.", taint=frozenset({"web"}), source="b/cards/x")
    whole = SystemText.joined((one, two, SystemText(text="Three.")))
    assert whole == SystemText(
        text="One.\n\nTwo.\n\nThree.", taint=frozenset({"web"}), source="a/other b/cards/x"
    )
    behind = Message(role="user", parts=(Text("Four.", "c/cards/y"), Text("no block")))
    request = ModelRequest(model=ModelRef("p", "m"), system=(whole,), messages=(behind,))
    assert request.sources == {"a/other": whole.text, "b/cards/x": whole.text, "c/cards/y": "Four."}


def test_what_is_blank_is_not_read() -> None:
    piece = SystemText(text=" ", source="a/other")
    assert ModelRequest(model=ModelRef("p", "m"), system=(piece,)).sources == {}


def test_the_source_of_a_message_is_not_stored() -> None:
    kept = Message(role="user", parts=(Text("x", "a/cards/y"),)).to_json()
    assert kept["parts"] == [{"type": "text", "text": "x"}]
