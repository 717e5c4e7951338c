"""Each value in force, the layer that set it, and no secret at any depth."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr, model_validator

from hookgate import Section
from hookgate.core.domain.errors import ConfigError
from hookgate.core.settings.file import load_settings
from hookgate.core.settings.schema import Settings
from hookgate.core.settings.secret_store import MASK
from hookgate.core.settings.sections import section_of
from hookgate.core.settings.values import SetValue, set_values, values_of
from hookgate.gateway import Gateway


class Acme(Section):
    servers: tuple[dict[str, Any], ...] = ()
    hint: SecretStr = SecretStr("")
    tokens: int = 100
    cookie: str = ""


def rows(settings: Settings, **models: type[Section]) -> dict[str, SetValue]:
    return {row.key: row for row in set_values(settings, models)}


def read(tmp_path: Path, text: str, **environ: str) -> Settings:
    file = tmp_path / "config.toml"
    file.write_text(text)
    return load_settings(file, environ={"HOME": str(tmp_path), **environ})


def test_nothing_that_may_be_a_secret_is_shown_at_any_depth(tmp_path: Path) -> None:
    text = """
    [plugin.acme]
    servers = [{ name = "one", headers = { X-Any = "quokka" }, more = [{ api_key = "quokka" }] },
               { url = "https://user:quokka@acme.example" },
               { url = "https://acme.example/in?v=1&key=quokka", args = ["--api-token=quokka"] },
               { url = "https://acme.example/in?page=2", args = ["--level=info"] },
               { args = ["run", "--token", "quokka", "-v", "--level", "info"] },
               { url = "https://hooks.slack.com/services/T0/B0/quokka" },
               { url = "https://discord.com/api/webhooks/1234/quokka" },
               { url = "https://api.telegram.org/bot123456:AAquokkaAAAAAAAAAAAAAAAAAAA/x" },
               { url = "https://slack.com/help" }]
    hint = "quokka"
    cookie = "quokka"
    tokens = 5
    """
    settings = read(tmp_path, text)
    for models in ({}, {"acme": Acme}):
        found = rows(settings, **models)
        assert "quokka" not in repr([row.value for key, row in found.items() if key != HINT])
        assert found["plugin.acme.servers"].value[0]["name"] == "one"
        last = {"url": "https://acme.example/in?page=2", "args": ["--level=info"]}
        assert found["plugin.acme.servers"].value[3] == last
        command = found["plugin.acme.servers"].value[4]["args"]
        assert command == ["run", "--token", MASK, "-v", "--level", "info"]
        assert found["plugin.acme.servers"].value[8] == {"url": "https://slack.com/help"}
    # That it is a secret, only its model knows; with that, a figure is none.
    assert found[HINT].value == "[redacted]"
    assert found["plugin.acme.tokens"].value == 5


HINT = "plugin.acme.hint"


def test_a_value_is_of_the_layer_that_has_the_last_word(tmp_path: Path) -> None:
    text = "[log]\nlevel = 'info'\n[[bindings]]\nagent = 'a'\n[agents.a]\nmodel = 'demo/demo'\n"
    found = rows(read(tmp_path, text, HOOKGATE_LOG__LEVEL="error"), acme=Acme)
    assert (found["log.level"].layer, found["log.level"].value) == ("environment", "error")
    assert (found["bindings"].layer, found["bindings"].place) == (
        "file",
        f"{tmp_path}/config.toml:3",
    )
    assert (found["plugin.acme.tokens"].layer, found["plugin.acme.tokens"].place) == ("default", "")
    assert found["home"].layer == "default"


def test_a_section_is_chosen_whole_and_a_wrong_one_named() -> None:
    every = list(set_values(Settings(), {"acme": Acme}))
    assert {row.key for row in values_of(every, "plugin.acme")} == {
        f"plugin.acme.{name}" for name in Acme.model_fields
    }
    assert [row.key for row in values_of(every, "context.history_turns")] == [
        "context.history_turns"
    ]
    with pytest.raises(ConfigError, match=r"did you mean `plugin\.acme`"):
        values_of(every, "plugin.acne")
    with pytest.raises(ConfigError, match="no section"):
        values_of(every, "con")


def test_what_is_set_by_nobody_holds() -> None:
    # It is not checked where a gateway starts.
    models = {"core": Settings, **Gateway().plugins.models()}
    assert len(models) > 20
    for name, model in models.items():
        made = model.by_default()
        assert made == model(), name
        assert repr(made) == repr(model.model_validate({})), name
        assert made.model_fields_set == frozenset(), name


class Demanding(Section):
    """A section that cannot be left out."""

    key: str


class Picky(Section):
    """A section whose default does not hold where nothing is said."""

    key: str | None = None

    @model_validator(mode="after")
    def _there(self) -> Picky:
        if self.key is None:
            raise ValueError("a key is needed")
        return self


@pytest.mark.parametrize("model", [Demanding, Picky])
def test_a_section_of_a_third_party_is_checked_also_where_nothing_is_said(
    model: type[Section],
) -> None:
    with pytest.raises(ConfigError, match="key"):
        section_of(Settings(), "acme", model)
