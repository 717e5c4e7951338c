"""The benchmark of retrieval: what it reads, what it counts, and what it hands to a scorer."""

from __future__ import annotations

import gzip
import hashlib
import json
import math
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from benchmarks.discovery import (
    _floor,
    _left_out,
    _stages,
    _token_cost,
    _tool_sets,
    _ways,
    retrieval,
)
from benchmarks.discovery._tool_sets import METRICS, Question
from benchmarks.discovery._vectors import Vectors

from hookgate.builtin_plugins.embedding.service import TextReading
from hookgate.builtin_plugins.embedding.worker import PreparedText

ROOT = Path(__file__).parent.parent.parent
SMALL_TALK = (
    ROOT / "benchmarks" / "discovery" / "small_talk.txt",
    ROOT / "src" / "hookgate" / "kit" / "small_talk.txt",
)


class WordModel:
    """Vectors from words: texts that share words are near each other."""

    dimension = 64
    fingerprint = "words"

    def __init__(self) -> None:
        self.texts = 0

    def load(self) -> None:
        self.texts = 0

    def prepare(self, text: str) -> PreparedText:
        return PreparedText(len(text.split()) + 2, text)

    def run(self, batch: Sequence[PreparedText]) -> Any:
        self.texts += len(batch)
        result = np.full((len(batch), self.dimension), 1e-3, np.float32)
        for row, one in enumerate(batch):
            for word in one.data.casefold().split():
                place = hashlib.sha256(word.strip(".,:?").encode()).digest()[0]
                result[row, place % self.dimension] += 1
        lengths = np.linalg.norm(result, axis=1, keepdims=True)
        return (result / lengths).astype(np.float32)

    def read(self, text: str) -> TextReading:
        return TextReading(self.run([self.prepare(text)])[0])


@pytest.fixture
def vectors() -> Vectors:
    return Vectors(WordModel())


def write_set(folder: Path, tools: list[dict[str, Any]], queries: list[dict[str, Any]]) -> Path:
    folder.mkdir(parents=True)
    for stem, lines in (("tools", tools), ("queries", queries)):
        text = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)
        (folder / f"{stem}.jsonl.gz").write_bytes(gzip.compress(text.encode()))
    return folder


def tool(name: str, description: str = "", **more: Any) -> dict[str, Any]:
    return {"id": f"t:{name}", "kind": "tool", "name": name, "description": description, **more}


# -- reading -------------------------------------------------------------------


def test_a_gzipped_set_is_read_with_its_parameters(tmp_path: Path) -> None:
    parameters = [{"name": "size", "type": "int", "description": "How large"}, {"name": "odd"}]
    folder = write_set(
        tmp_path / "mine",
        [tool("scale", "Scale it", parameters=parameters, tags=["a"], category="b")],
        [{"id": "q", "query": "line\u2028break", "gold": ["t:scale"]}],
    )

    tools = _tool_sets.read_set(folder)

    assert tools.name == "mine"
    assert tools.rows[0].parameters == ("size", "odd")
    assert tools.rows[0].parameter_texts == ("How large", "")
    assert tools.schemas[0]["properties"] == {
        "size": {"type": "integer", "description": "How large"},
        "odd": {"type": "string"},
    }
    assert tools.questions == (Question("q", "line\u2028break", frozenset({"t:scale"})),)


def test_a_folder_of_sets_gives_each_of_them_by_name(tmp_path: Path) -> None:
    for name in ("b", "a"):
        write_set(tmp_path / name, [tool("x")], [])
    (tmp_path / "notes").mkdir()

    assert [path.name for path in _tool_sets.set_folders(tmp_path)] == ["a", "b"]
    assert _tool_sets.set_folders(tmp_path / "a") == [tmp_path / "a"]


def test_a_folder_without_a_set_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="found no set"):
        _tool_sets.set_folders(tmp_path)


# -- scoring -------------------------------------------------------------------


def test_the_metrics_of_a_small_run_are_those_worked_out_by_hand() -> None:
    questions = [
        Question("both", "", frozenset({"a", "b"})),  # at places 1 and 3
        Question("late", "", frozenset({"c"})),  # at place 6
        Question("left out", "", frozenset({"d"})),
    ]
    run = {"both": ["a", "x", "b"], "late": ["1", "2", "3", "4", "5", "c"]}

    found = _tool_sets.score(questions, run)

    ndcg = (1 + 1 / math.log2(4)) / (1 + 1 / math.log2(3))
    assert found == pytest.approx(
        {
            "Recall@1": (0.5 + 0 + 0) / 3,
            "Recall@5": (1 + 0 + 0) / 3,
            "Recall@10": (1 + 1 + 0) / 3,
            "Complete@5": 1 / 3,
            "NDCG@5": ndcg / 3,
            "MRR": (1 + 1 / 6 + 0) / 3,
        }
    )


def test_a_run_holds_ten_ids_a_query_best_first(tmp_path: Path) -> None:
    path = tmp_path / "new" / "run.jsonl"

    _tool_sets.write_run(path, {"q": [str(place) for place in range(20)]})

    assert _tool_sets.read_lines(path) == [{"id": "q", "ranked": list("0123456789")}]


SCORER = f"""
import json, sys
queries, run, flag = sys.argv[1:]
assert flag == "--json" and queries.endswith(".gz")
answered = len(open(run).read().splitlines())
print(json.dumps(dict.fromkeys({METRICS}, [answered / 2, 0, 1])))
"""


@pytest.fixture
def scored(tmp_path: Path) -> tuple[Path, _tool_sets.ToolSet]:
    scorer = tmp_path / "scorer.py"
    scorer.write_text(SCORER)
    queries = [{"id": "q", "query": "x", "gold": ["t:x"]}]
    return scorer, _tool_sets.read_set(write_set(tmp_path / "s", [tool("x")], queries))


def test_another_program_scores_a_run(
    scored: tuple[Path, _tool_sets.ToolSet], capsys: pytest.CaptureFixture[str]
) -> None:
    scorer, tools = scored

    retrieval.check_by_scorer(scorer, tools, {"q": ["t:x"]}, dict.fromkeys(METRICS, 0.5))

    assert "Recall@5 0.5000" in capsys.readouterr().out


def test_a_scorer_that_disagrees_stops_the_run(scored: tuple[Path, _tool_sets.ToolSet]) -> None:
    scorer, tools = scored

    with pytest.raises(SystemExit, match=r"something else of s: .*Recall@5"):
        retrieval.check_by_scorer(scorer, tools, {"q": ["t:x"]}, dict.fromkeys(METRICS, 1.0))


def test_a_scorer_that_fails_says_why(scored: tuple[Path, _tool_sets.ToolSet]) -> None:
    scorer, tools = scored
    scorer.write_text("raise SystemExit('no such thing')")

    with pytest.raises(SystemExit, match="no such thing"):
        _tool_sets.score_by(scorer, tools.queries_file, scorer)


# -- vectors -------------------------------------------------------------------


def test_vectors_are_computed_once_and_kept_on_disk(tmp_path: Path) -> None:
    first, second = WordModel(), WordModel()
    made = Vectors(first, tmp_path).of(["a b", "c", "a b"])

    again = Vectors(second, tmp_path).of(["c", "a b"])

    assert first.texts == 2
    assert second.texts == 0
    assert np.array_equal(again, made[[1, 0]])


def test_what_a_stopped_run_half_wrote_is_passed_over(tmp_path: Path) -> None:
    Vectors(WordModel(), tmp_path).of(["a", "b"])
    (numbers,) = tmp_path.glob("*.f16")
    numbers.write_bytes(numbers.read_bytes()[:-7])

    vectors = Vectors(WordModel(), tmp_path)

    assert np.array_equal(vectors.of(["b", "a"]), Vectors(WordModel()).of(["b", "a"]))
    assert np.array_equal(vectors.of(["a"]), Vectors(WordModel(), tmp_path).of(["a"]))


# -- stages --------------------------------------------------------------------


def test_every_stage_finds_what_is_said_in_its_own_words(vectors: Vectors) -> None:
    tools = _tool_sets.read_set(retrieval.TINY)
    stages = _stages.Stages(tools, vectors)

    result, runs = retrieval.measure(tools, stages, _stages.STAGES, learning=True)

    assert set(result.stages) == set(_stages.STAGES)
    assert all(scores["Recall@10"] > 0.6 for scores in result.stages.values())
    assert all(len(set(ranked)) == 10 for run in runs.values() for ranked in run.values())
    # It has too few queries a tool to learn from.
    assert result.learned == {}


def taught() -> list[Question]:
    """20 tools with 8 queries each, all of them with a word of the tool's own."""
    return [
        Question(f"{name}-{number}", f"secret{name} ask{number}", frozenset({f"t:{name}"}))
        for name in range(20)
        for number in range(8)
    ]


def test_a_split_asks_half_of_each_tools_queries_and_the_same_ones_for_every_count() -> None:
    split = _stages.split_of(taught())

    assert split is not None
    assert len(split.asked) == 20 * 4
    assert {len(texts) for texts in split.examples.values()} == {4}
    asked = {one.text for one in taught() if one.id in split.asked}
    assert not asked & {text for texts in split.examples.values() for text in texts}
    assert (split.mean(0), split.mean(3), split.mean(30)) == (0, 3, 4)


def test_queries_that_need_several_tools_are_neither_examples_nor_asked() -> None:
    several = [Question("m", "x", frozenset({"t:1", "t:2"})), *taught()]

    split = _stages.split_of(several)

    assert split is not None
    assert "m" not in split.asked
    assert "x" not in {text for texts in split.examples.values() for text in texts}


def test_examples_lead_to_a_tool_that_its_own_words_do_not_lead_to(
    tmp_path: Path, vectors: Vectors
) -> None:
    lines = [{"id": one.id, "query": one.text, "gold": list(one.gold)} for one in taught()]
    folder = write_set(tmp_path / "s", [tool(str(name), "does") for name in range(20)], lines)

    tools = _tool_sets.read_set(folder)
    result, _ = retrieval.measure(tools, _stages.Stages(tools, vectors), [], learning=True)

    recall = {count: scores["Recall@5"] for count, (_, scores) in result.learned.items()}
    assert recall[0] < 0.5
    assert recall[3] > recall[0] + 0.2


# -- the floor -----------------------------------------------------------------


def test_the_floor_is_measured_on_small_talk_and_on_what_was_asked_for(vectors: Vectors) -> None:
    stages = _stages.Stages(_tool_sets.read_set(retrieval.TINY), vectors)

    found = _floor.let_through(stages, vectors)

    run = _tool_sets.score(stages.tools.questions, stages.run("fused"))
    assert found.recall == pytest.approx(run["Recall@5"])
    assert found.recall_kept <= found.recall
    assert (found.recall_kept < found.recall) == (found.lost > 0)
    assert 0 <= found.small_talk <= 1


def test_small_talk_without_words_or_meaning_in_common_selects_nothing(vectors: Vectors) -> None:
    # Every message that is measured is small talk to the word: the floor keeps all of it out.
    stages = _stages.Stages(_tool_sets.read_set(retrieval.TINY), vectors)
    stages.index.background = vectors.of(_floor.messages())

    assert _floor.let_through(stages, vectors).small_talk < 0.05


# -- tokens --------------------------------------------------------------------


def test_the_tiers_cost_less_than_all_schemas(vectors: Vectors) -> None:
    costs = _token_cost.token_costs(_tool_sets.read_set(retrieval.TINY), vectors)

    assert len(costs) == 2
    assert all(0 < cost.tiers < cost.dump for cost in costs)
    assert all(0 < cost.request < 2 * cost.dump for cost in costs)
    assert costs[0].saved(costs[0].dump / 4) == 75


def test_the_dump_holds_every_declaration() -> None:
    sample = _token_cost.Sample(_tool_sets.read_set(retrieval.TINY))

    declared = json.loads(sample.declared(range(len(sample.rows))))

    assert len(declared) == 24
    assert all(one["schema"]["properties"] for one in declared)


def test_the_installed_tokenizer_counts_word_pieces() -> None:
    assert _token_cost.WordPieces().count("send an email to everybody " * 200) == 5 * 200


# -- what is shown -------------------------------------------------------------


def test_the_mean_leaves_the_pool_out() -> None:
    results = [
        retrieval.Result(name, {"fused": dict.fromkeys(METRICS, value)})
        for name, value in (("a", 0.6), ("b", 0.8), ("mix", 0.1))
    ]

    assert retrieval.means(results).stages["fused"]["Recall@5"] == pytest.approx(0.7)


def test_a_goal_of_a_share_is_the_least_that_it_may_be() -> None:
    good = dict.fromkeys((*METRICS, retrieval.MULTI), 0.9)
    bad = dict.fromkeys((*METRICS, retrieval.MULTI), 0.1)

    above = retrieval.set_figures(retrieval.Result("mix", {"fused": good, "plain": bad}))
    below = retrieval.set_figures(retrieval.Result("mix", {"fused": bad, "plain": good}))

    assert [figure.met for figure in above] == [True, True, True]
    assert [figure.met for figure in below] == [False, False, False]


def test_several_sets_have_a_run_each() -> None:
    path = Path("runs/run.jsonl")

    assert retrieval.out_of(path, "a", several=True) == Path("runs/run-a.jsonl")
    assert retrieval.out_of(path, "a", several=False) == path


def test_without_sets_the_benchmark_is_skipped_with_a_line(monkeypatch: Any, capsys: Any) -> None:
    monkeypatch.setattr(sys, "argv", ["retrieval"])
    monkeypatch.delenv(retrieval.DATA, raising=False)

    retrieval.main()

    assert capsys.readouterr().out.startswith("skipped: ")


# -- small talk ----------------------------------------------------------------


def messages(path: Path) -> list[str]:
    lines = path.read_text(encoding="utf-8").splitlines()
    return [line for line in lines if line and not line.startswith("#")]


def test_the_small_talk_that_is_measured_is_not_that_which_is_recognised() -> None:
    def bare(text: str) -> str:
        letters = (letter for letter in text.casefold() if letter.isalnum() or letter.isspace())
        return " ".join("".join(letters).split())

    measured, known = ({bare(line) for line in messages(path)} for path in SMALL_TALK)

    assert len(measured) == 200
    assert len(known) >= 100
    assert not measured & known


# -- the whole -----------------------------------------------------------------


@pytest.mark.slow
def test_the_quick_run_comes_to_its_end(tmp_path: Path) -> None:
    out = tmp_path / "run.jsonl"
    command = [sys.executable, "-m", "benchmarks.discovery.retrieval", "--quick", "--out", str(out)]

    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr
    run = {line["id"]: line["ranked"] for line in _tool_sets.read_lines(out)}
    tools = _tool_sets.read_set(retrieval.TINY)
    assert set(run) == {question.id for question in tools.questions}
    assert _tool_sets.score(tools.questions, run)["Recall@5"] > 0.9


# -- leaving out ---------------------------------------------------------------


def trial_of(folder: Path, name: str, vectors: Vectors) -> _left_out.Trial:
    """Make a set in which parameters alone tell what is asked for."""
    tools = [tool(f"{name}{at}", parameters=[{"name": word}]) for at, word in enumerate(WORDS)]
    asked = [
        {"id": word, "query": f"the {word} of it. then something else", "gold": [f"t:{name}{at}"]}
        for at, word in enumerate(WORDS)
    ]
    tools_of_a_name = _tool_sets.read_set(write_set(folder / name, tools, asked))
    return _left_out.Trial(_stages.Stages(tools_of_a_name, vectors))


WORDS = ("amber", "birch", "cedar", "delta", "ember", "fjord", "glade", "heath", "inlet", "jetty")


def test_a_trial_with_the_constants_of_the_product_ranks_as_the_product_does(
    vectors: Vectors,
) -> None:
    stages = _stages.Stages(_tool_sets.read_set(retrieval.TINY), vectors)

    run = _left_out.Trial(stages).run(_left_out.Constants())

    assert run == stages.run("fused")


def test_a_set_is_scored_with_what_was_tuned_on_the_others(
    tmp_path: Path, vectors: Vectors
) -> None:
    trials = [trial_of(tmp_path, name, vectors) for name in ("one", "two", "three")]
    grid = {"fields.parameter": (0.0, 1.0), "weights.meaning": (0.0, 0.6)}
    said: list[str] = []

    results = _left_out.leave_one_out(trials, grid, said.append)

    assert [one.name for one in results] == ["one", "two", "three"]
    assert all(one.constants.fields.parameter == 1.0 for one in results)
    assert all(one.scores["Recall@5"] == 1.0 for one in results)
    blind = _left_out.Constants().with_one("fields.parameter", 0.0)
    blind = blind.with_one("weights.meaning", 0.0)
    assert trials[0].scores(blind)["Recall@5"] < 1.0
    assert [line for line in said if "left out" in line] == [
        "-- one is left out",
        "-- two is left out",
        "-- three is left out",
    ]


def test_one_set_alone_cannot_be_left_out(tmp_path: Path, vectors: Vectors) -> None:
    with pytest.raises(SystemExit, match="found one set"):
        _left_out.leave_one_out([trial_of(tmp_path, "one", vectors)])


def test_each_constant_of_the_grid_has_a_start_and_another_value() -> None:
    for name, values in _left_out.GRID.items():
        other = next(value for value in values if value != _left_out.START.of(name))
        assert _left_out.START.with_one(name, other).of(name) == other


# -- costs ---------------------------------------------------------------------


def test_each_way_to_make_a_query_is_scored_and_timed(
    vectors: Vectors, capsys: pytest.CaptureFixture[str]
) -> None:
    stages = _stages.Stages(_tool_sets.read_set(retrieval.TINY), vectors)

    found = _ways.costs([stages], vectors)
    _ways.show_costs(found)

    assert list(found) == list(_ways.WAYS)
    assert all(cost.milliseconds > 0 and cost.recall > 0.3 for cost in found.values())
    fused = _tool_sets.score(stages.tools.questions, stages.run("fused"))
    assert found[_ways.DEFAULT].recall == pytest.approx(fused["Recall@5"])
    shown = capsys.readouterr().out
    assert f"{_ways.DEFAULT} *" in shown
    assert shown.count(" *") == 1


def test_vectors_without_a_cache_ask_the_model_again(tmp_path: Path) -> None:
    model = WordModel()
    vectors = Vectors(model, tmp_path)
    vectors.of(["a"])
    before = model.texts
    vectors.without_cache().of(["a"])
    assert model.texts == before + 1
