"""A tool that reckons with a column of a table, in Python with its standard library."""

import csv
import io
import json
import statistics
from typing import Any

import wit_world


class WitWorld(wit_world.WitWorld):
    """The functions of the world `tool`."""

    def describe(self, request: str) -> str:
        tools = [{"name": "table_column"}]
        return json.dumps({"name": "table-python", "version": "1.0.0", "tools": tools})

    def handle_tool_call(self, request: str) -> str:
        given = json.loads(request)["input"]
        try:
            return json.dumps({"content": json.dumps(reckoned(given["table"], given["column"]))})
        except (ValueError, KeyError) as error:
            return json.dumps({"content": f"That was not to be had: {error}", "is_error": True})


def reckoned(table: str, column: str) -> dict[str, Any]:
    rows = list(csv.DictReader(io.StringIO(table)))
    values = [float(row[column]) for row in rows if row[column] not in (None, "")]
    if not values:
        raise ValueError(f"found no number in the column {column!r}")
    return {
        "rows": len(rows),
        "values": len(values),
        "sum": sum(values),
        "mean": statistics.fmean(values),
        "median": statistics.median(values),
        "smallest": min(values),
        "largest": max(values),
    }
