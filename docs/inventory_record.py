"""Write the JSON Schema of a record into its page: ``python -m docs.inventory_record``.

It is generated from `hookgate.CapabilityRecord`, and stands in docs/plugins/inventory.md between
two markers. The rest of the page is written by hand.
"""

from __future__ import annotations

import inspect
import json
import re
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from hookgate import CapabilityRecord

PAGE = Path(__file__).parent / "plugins" / "inventory.md"
BEGIN = "<!-- from builtin_plugins/inventory/record.py: `make docs` writes these lines -->"
END = "<!-- end -->"


def schema() -> dict[str, Any]:
    """Return the JSON Schema of a record, each field with what its class says of it."""
    made = TypeAdapter(CapabilityRecord).json_schema(mode="serialization")
    said = _descriptions()
    properties = {
        name: {"description": said[name], **{key: value for key, value in field.items()
                                             if key != "title"}}
        for name, field in made["properties"].items()
    }  # fmt: skip
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": made["title"],
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def _descriptions() -> dict[str, str]:
    text = inspect.getdoc(CapabilityRecord) or ""
    rows = re.findall(r"^    (\w+): (.+(?:\n {8}.+)*)", text.partition("Attributes:")[2], re.M)
    return {name: " ".join(said.split()) for name, said in rows}


def generated() -> str:
    """Return the lines between the markers, markers included: a field a line."""
    made = schema()
    fields = ",\n".join(
        f"    {json.dumps(name)}: {json.dumps(field)}"
        for name, field in made.pop("properties").items()
    )
    head = ",\n".join(f"  {json.dumps(key)}: {json.dumps(value)}" for key, value in made.items())
    return "\n".join(
        (
            BEGIN,
            "",
            "```json",
            f'{{\n{head},\n  "properties": {{\n{fields}\n  }}\n}}',
            "```",
            "",
            END,
        )
    )


def page(text: str) -> str:
    """Return the page with the generated lines replaced.

    Raises:
        ValueError: It has no markers.
    """
    head, begin, rest = text.partition(BEGIN)
    _, end, tail = rest.partition(END)
    if not (begin and end):
        raise ValueError(f"found no markers in {PAGE.name}, expected {BEGIN} and {END}")
    return f"{head}{generated()}{tail}"


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
