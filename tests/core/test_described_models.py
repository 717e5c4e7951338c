"""Models whose fields are described by the text below them."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
from pydantic import Field
from pydantic.errors import PydanticSchemaGenerationError

from hookgate.core.gateway.operations import OperationModel
from hookgate.core.settings.schema import Section


class Inner(OperationModel):
    size: int = 0
    """How large it is."""


class Params(OperationModel):
    limit: int = 20
    """How many
    at most.
    """
    given: str = Field(default="", description="By hand.")
    """Not this."""
    renamed: int = Field(default=0, alias="other-name")
    """Under its other name."""
    inner: Inner = Inner()
    """What lies in it."""
    plain: int = 0
    _note = 0
    """Of no field."""


class Longer(Params):
    more: int = 0
    """Its own."""
    plain: int = 1
    limit: int = 30


class Unknown:
    """A type that pydantic knows nothing of."""


def described(model: type[OperationModel]) -> dict[str, Any]:
    properties = model.model_json_schema()["properties"]
    return {name: one["description"] for name, one in properties.items() if "description" in one}


def test_the_text_below_a_field_is_its_description() -> None:
    assert described(Params) == {
        "limit": "How many\nat most.",
        "given": "By hand.",
        "other-name": "Under its other name.",
        "inner": "What lies in it.",
    }
    inner = Params.model_json_schema()["$defs"]["Inner"]
    assert inner["properties"]["size"]["description"] == "How large it is."


def test_a_field_that_is_declared_anew_is_described_anew() -> None:
    assert described(Longer).keys() == {"given", "other-name", "inner", "more"}


def test_a_class_within_a_function_is_described_too() -> None:
    class Local(Section):
        key: int = 0
        """What it is for."""

    assert Local.model_json_schema()["properties"]["key"]["description"] == "What it is for."


def test_a_class_without_a_source_has_no_descriptions_and_works() -> None:
    scope: dict[str, Any] = {"__name__": "nowhere", "OperationModel": OperationModel}
    exec("class Made(OperationModel):\n    key: int = 0\n    'It.'", scope)

    assert scope["Made"](key=1).key == 1
    assert described(scope["Made"]) == {}


def test_a_mistake_in_a_plugins_model_is_found_where_it_is_made() -> None:
    with pytest.raises(PydanticSchemaGenerationError):

        class Wrong(OperationModel):
            what: Unknown


def test_the_models_of_hookgate_are_made_when_they_are_used() -> None:
    code = (
        "from hookgate.core.settings.schema import TokenSettings as Made\n"
        "assert not Made.__pydantic_complete__\n"
        "Made(file='key'); assert Made.__pydantic_complete__"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
