from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import AfterValidator, ConfigDict, DirectoryPath, Field, RootModel
from tests.support.loading import load as load_plugins
from tests.support.script import Script, Scripted, say

from hookgate.core.settings.file import load_settings
from hookgate.core.settings.schema import HomePath, PathText, Section, Settings
from hookgate.core.settings.sections import section_of
from hookgate.gateway import Gateway
from hookgate.hookspecs import hookimpl


class Inner(Section):
    file: Path = Path("inner")
    words: tuple[str, ...] = ()


@dataclasses.dataclass
class Data:
    file: Path


class Pair(RootModel[tuple[Path, int]]):
    pass


class Wide(Section):
    """What a third party's model may look like: it knows nothing of where paths begin."""

    plain: Path = Path("default")
    optional: Path | None = None
    many: tuple[Path, ...] = ()
    some: frozenset[Path] = frozenset()
    table: dict[str, list[Path]] = Field(default_factory=dict)
    keys: dict[Path, int] = Field(default_factory=dict)
    either: Literal["auto"] | Path = "auto"
    number_or: int | Path = 0
    inner: Inner = Inner()
    inners: dict[str, Inner] = Field(default_factory=dict)
    data: Data | None = None
    pair: Pair | None = None
    absolute: Annotated[Path, AfterValidator(Path.absolute)] = Path("/")
    renamed: Path | None = Field(default=None, alias="other-name")
    checked: DirectoryPath | None = None
    text: PathText = ""
    state: HomePath = Path("state.db")
    word: str = "word"
    made: Any = Field(default_factory=lambda: Path("made"))


def section(settings: Settings) -> Wide:
    return section_of(settings, "wide", Wide)


def written(folder: Path, text: str, environ: Mapping[str, str] | None = None, **more: Any) -> Any:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.toml").write_text(text)
    return load_settings(
        folder / "config.toml", environ={"HOME": str(folder), **(environ or {})}, overrides=more
    )


def paths_in(value: Any) -> list[Path]:
    if isinstance(value, Path):
        return [value]
    if isinstance(value, Section | RootModel):
        return [path for inner in vars(value).values() for path in paths_in(inner)]
    if dataclasses.is_dataclass(value):
        return [path for inner in vars(value).values() for path in paths_in(inner)]
    if isinstance(value, Mapping):
        return [path for pair in value.items() for inner in pair for path in paths_in(inner)]
    if isinstance(value, list | tuple | set | frozenset):
        return [path for inner in value for path in paths_in(inner)]
    return []


NAMES = st.from_regex(r"[a-z]{1,5}(/[a-z]{1,5}){0,2}", fullmatch=True)
SECTIONS = st.fixed_dictionaries(
    {},
    optional={
        "plain": NAMES,
        "optional": NAMES,
        "many": st.lists(NAMES, max_size=3),
        "some": st.lists(NAMES, max_size=3),
        "table": st.dictionaries(st.sampled_from("ab"), st.lists(NAMES, max_size=2)),
        "keys": st.dictionaries(NAMES, st.integers(0, 9), max_size=2),
        "either": NAMES,
        "number_or": NAMES,
        "inner": st.fixed_dictionaries({"file": NAMES}),
        "inners": st.dictionaries(st.sampled_from("ab"), st.fixed_dictionaries({"file": NAMES})),
        "data": st.fixed_dictionaries({"file": NAMES}),
        "pair": st.tuples(NAMES, st.integers(0, 9)).map(list),
        "absolute": NAMES,
        "other-name": NAMES,
    },
)


@given(values=SECTIONS)
def test_no_path_of_a_third_partys_section_follows_the_current_folder(values: Any) -> None:
    folder = Path("/srv/settings")
    settings = Settings(home=Path("/srv/home"), plugin={"wide": values})
    bases = dataclasses.replace(settings.bases, folder=folder)
    found = section(settings.placed(bases))
    for path in paths_in(found):
        assert path.is_relative_to(folder) or path in (Path("/srv/home/state.db"), Path("/"))
    if values.get("plain"):
        assert found.plain == folder / values["plain"]
    if values.get("absolute"):
        assert found.absolute == folder / values["absolute"]
    if values.get("pair"):
        assert found.pair is not None
        assert found.pair.root == (folder / values["pair"][0], values["pair"][1])


def test_what_is_no_path_stays_as_it_is_and_defaults_are_made_whole(tmp_path: Path) -> None:
    found = section(written(tmp_path, "[plugin.wide]\nword = 'a/b'\neither = 'auto'"))
    assert (found.word, found.either, found.number_or, found.text) == ("a/b", "auto", 0, "")
    assert found.plain == tmp_path / "default"
    assert found.inner.file == tmp_path / "inner"
    assert found.state == tmp_path / ".hookgate" / "state.db"
    assert found.made == tmp_path / "made"
    assert found.model_fields_set == {"word", "either"}


def test_a_path_that_is_checked_when_it_is_read_is_looked_for_in_the_files_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    text = "[plugin.wide]\nchecked = 'there'\ntext = 'a.txt'\nother-name = '~/b'"
    found = section(written(tmp_path, text))
    assert found.checked == tmp_path / "there"
    assert found.text == str(tmp_path / "a.txt")
    assert found.renamed == tmp_path / "b"


def test_paths_of_the_environment_begin_with_the_file_and_typed_ones_where_one_stands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    environ = {
        "HOOKGATE_PLUGIN__WIDE__MANY": '["one"]',
        "HOOKGATE_AGENTS__A__SOUL_FILE": "soul.md",
    }
    text = "[agents.a]\nmodel = 'demo/demo'\n[plugin.wide]\nplain = 'two'"
    place = tmp_path / "place"
    settings = written(place, text, environ, **{"plugin.wide.table": {"a": ["three"]}})
    found = section(settings)
    assert settings.agents["a"].soul_file == place / "soul.md"
    assert (found.plain, found.many) == (place / "two", (place / "one",))
    assert found.table == {"a": [tmp_path / "here" / "three"]}


def test_without_a_file_paths_begin_at_the_home_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    environ = {"HOME": str(tmp_path / "me"), "HOOKGATE_PLUGIN__WIDE__PLAIN": "rules"}
    found = section(load_settings(environ=environ))
    assert found.plain == tmp_path / "me" / ".hookgate" / "rules"
    program = Settings(home=tmp_path / "gate", plugin={"wide": {"plain": Path("rules")}})
    assert section(program).plain == tmp_path / "gate" / "rules"


class Live:
    name = "wide"

    @hookimpl
    def after_turn(self, turn: Any) -> None:
        return None

    Settings = Wide

    def __init__(self, settings: Wide) -> None:
        self.plain = settings.plain

    def take_settings(self, settings: Wide) -> tuple[str, ...]:
        self.plain = settings.plain
        return ()


async def test_a_section_that_is_taken_at_a_reload_has_whole_paths_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    text = "plugins.entry_points = false\n[plugin.wide]\nplain = '{}'"
    read = [written(tmp_path / "place", text.format(name)) for name in ("first", "second")]
    gate = Gateway(
        read[0], plugins=[Scripted(Script(say("ok"))), Live], read_settings=lambda: read[1]
    )
    async with gate:
        live = gate.plugins.get("wide")
        assert isinstance(live, Live)
        assert live.plain == tmp_path / "place" / "first"
        await gate.reload()
        assert live.plain == tmp_path / "place" / "second"


def test_a_model_with_a_type_that_json_schema_does_not_know_is_taken_all_the_same() -> None:
    class Odd(Section):
        model_config = ConfigDict(arbitrary_types_allowed=True)
        thing: object | None = None
        lock: type[int] | Live | None = None
        file: Path = Path("x")

    class Plugin(Live):
        name = "odd"
        Settings = Odd

        def __init__(self, settings: Odd) -> None:
            self.settings = settings

    plugin = load_plugins(Plugin, section={"odd": {"thing": Live}}).get("odd")
    assert isinstance(plugin, Plugin)
    assert plugin.settings.file.is_absolute()
