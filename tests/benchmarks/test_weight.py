"""What the meter counts, and to whom it charges it."""

from __future__ import annotations

import sys

import pytest
from benchmarks.weight.gateway import METER, ROOT, UNCOUNTED, Meter, library_of, room_of

SITE = f"/x/lib/python{sys.version_info.major}.{sys.version_info.minor}"


@pytest.mark.parametrize(
    ("file", "room"),
    [
        (f"{ROOT}/src/hookgate/builtin_plugins/memory/recall/words.py", "plugin memory"),
        (f"{ROOT}/builtin_plugins/memory/plugin.py", "plugin memory"),
        (f"{ROOT}/core/host.py", "core host"),
        (f"{ROOT}/core/turn/talk.py", "core turn"),
        (f"{ROOT}/src/hookgate/gateway.py", "composition"),
        (f"{ROOT}/src/hookgate/kit/records.py", None),
        (f"{SITE}/site-packages/sqlalchemy/core/base.py", None),
        ("<string>", None),
        (f"{SITE}/asyncio/base_events.py", UNCOUNTED),
        (f"{SITE}/asyncio/locks.py", None),
        (f"{ROOT}/benchmarks/weight/gateway.py", METER),
    ],
)
def test_a_file_belongs_to_a_room(file: str, room: str | None) -> None:
    assert room_of(file) == room


@pytest.mark.parametrize(
    ("file", "library"),
    [
        (f"{SITE}/site-packages/aiohttp/web.py", "aiohttp"),
        (f"{SITE}/threading.py", "threading"),
        (f"{ROOT}/src/hookgate/kit/records.py", "kit"),
    ],
)
def test_a_file_belongs_to_a_library(file: str, library: str) -> None:
    assert library_of(file) == library


def test_calls_of_libraries_are_charged_to_the_nearest_room() -> None:
    meter = Meter()
    library = compile(
        "def helper():\n    return len(())\n", f"{SITE}/site-packages/lib/a.py", "exec"
    )
    plugin = compile("def work():\n    helper()\n    helper()\n", f"{ROOT}/core/turn/x.py", "exec")
    names: dict[str, object] = {}
    exec(library, names)
    exec(plugin, names)
    work = names["work"]
    assert callable(work)

    meter.start()
    sys.setprofile(meter.profile)
    try:
        work()
    finally:
        sys.setprofile(None)

    calls = meter.told()["calls"]
    assert [row for row in calls if row[0] == "core turn"] == [["core turn", False, "work", 3]]
    assert meter.told()["counts"]["C calls"] >= 2


def test_statements_are_told_from_what_holds_them_together() -> None:
    meter = Meter()
    meter.start()

    for sql in ("BEGIN IMMEDIATE", "INSERT INTO a VALUES (1)", "COMMIT", "BEGIN", "SELECT 1"):
        meter.statement(sql)
    meter.statement("ROLLBACK")

    assert meter.told()["counts"] == {"commits": 1, "read transactions": 1, "statements": 2}
