"""The dashboard with very much in it, in a real Chromium: answers, first content, frames, memory.

    python -m benchmarks.dashboard [--quick] [--minutes 30] [--look VIEW ...] [--home FOLDER]

A gateway with all its plugins has a million audit rows, 100,000 turns, 10,000 capabilities, a graph
of 1,000 nodes and 3,000 edges, and 50 events a second while it is looked at. Answers are timed in
the page, from the request to the answer, over all operations that its views ask. "First content" is
the first paint of a page that is loaded anew, and then until the view has its rows. A "long task"
holds the page's thread for more than 50 ms; they are counted while nobody does anything. Frames are
counted while one scrolls and while one types into the view's search. Memory is what the page's
JavaScript holds after its garbage is collected, as views are walked through for so long.

Needs what `make test-browser` installs. Where other work runs beside it the figures are those of
both: `idle share` says how much of the machine was free before it began.
"""

from __future__ import annotations

import argparse
import asyncio
import io
import os
import shutil
import sqlite3
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from benchmarks.report import Figure, report
from hookgate import Capability, CapabilityRecord, Event, Gateway, Settings, hookimpl
from hookgate.builtin_plugins.audit.seals import Head, Sealer, key_from_file
from hookgate.core.gateway.serve import listen

VIEWS: tuple[str, ...] = (
    *("", "approvals", "turns", "usage", "policy", "capabilities", "graph", "memory", "audit"),
    *("system", "system/plugins", "system/settings", "system/log"),
)
QUICK = ("", "turns", "capabilities", "audit", "system/log")
SEARCHED = ("turns", "capabilities", "graph", "audit", "system/settings", "system/log")
FLAGS = ("--no-sandbox", "--disable-gpu", "--no-first-run", "--js-flags=--expose-gc")
TOLD = (
    *("done", "usage", "tool_use", "tool_result", "context", "lifecycle", "done", "outcome_plans"),
    *("notice", "recovered"),
)
"""Of ten events."""

WATCH = """
globalThis.took = [];
const asked = new Map();
const send = WebSocket.prototype.send;
WebSocket.prototype.send = function (frame) {
  const { id, method } = JSON.parse(frame);
  if (!method.startsWith("events.")) asked.set(id, [method, performance.now()]);
  if (!this.heard) {
    this.heard = true;
    this.addEventListener("message", ({ data }) => {
      const end = performance.now();
      const { id } = JSON.parse(data);
      const found = asked.get(id);
      asked.delete(id);
      if (found) globalThis.took.push([found[0], end - found[1]]);
    });
  }
  return send.call(this, frame);
};
globalThis.tasks = [];
new PerformanceObserver((list) => {
  for (const one of list.getEntries()) globalThis.tasks.push(one.duration);
}).observe({ entryTypes: ["longtask"] });
globalThis.frames = (seconds) => new Promise((resolve) => {
  const at = [];
  const begin = performance.now();
  const next = (now) => {
    at.push(now);
    if (performance.now() - begin < seconds * 1000) requestAnimationFrame(next);
    else resolve(at);
  };
  requestAnimationFrame(next);
});
"""
SCROLL = """async (seconds) => {
  const counted = globalThis.frames(seconds);
  const most = document.documentElement.scrollHeight - innerHeight;
  const begin = performance.now();
  const next = () => {
    const share = (performance.now() - begin) / (seconds * 1000);
    scrollTo(0, most * (0.5 - 0.5 * Math.cos(6.28 * share)));
    if (share < 1) requestAnimationFrame(next);
  };
  requestAnimationFrame(next);
  return counted;
}"""
SHOWN = "() => document.querySelector('main h2') && !document.querySelector('[aria-busy]')"
PAINTED = "() => performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? 0"


@dataclass
class Size:
    """How much there is.

    Attributes:
        rows: Audit rows.
        turns: Turns.
        records: Capabilities of a runtime.
        nodes: Skills in the graph, with three edges each.
        idle: Seconds for which nobody does anything in a view.
        minutes: How long memory is looked at.
    """

    rows: int = 1_000_000
    turns: int = 100_000
    records: int = 10_000
    nodes: int = 1_000
    idle: float = 5.0
    minutes: float = 30.0


class Crowd:
    """A plugin with very many skills, and a runtime with very many capabilities."""

    name = "crowd"
    id = "crowd"

    def __init__(self, size: Size) -> None:
        self.size = size

    @hookimpl
    def list_capabilities(self) -> list[Capability]:
        return [
            Capability(
                id=f"skill:crowd-{number}",
                kind="skill",
                name=f"crowd-{number}",
                description=f"Does the thing number {number}, and nothing else.",
                category=f"things {number % 20}",
                required_tools=tuple(
                    f"crowd-{(number * step + step) % self.size.nodes}" for step in (3, 7, 11)
                ),
            )
            for number in range(self.size.nodes)
        ]

    @hookimpl(of="inventory")
    def inventory_sources(self) -> Sequence[Any]:
        return (self,)

    async def read(self) -> Sequence[CapabilityRecord]:
        return [
            CapabilityRecord.of(
                self.id,
                f"thing-{number}",
                kind="connector",
                source="mcp-connector",
                manageability="external-write",
                agent_id=f"agent-{number % 10}",
                description=f"Does the thing number {number}, and nothing else.",
            )
            for number in range(self.size.records)
        ]


def settings(home: Path, level: str = "info") -> Settings:
    return Settings.model_validate(
        {
            "home": home,
            "gateway": {"port": 0},
            "plugins": {"entry_points": False, "disable": ["embedding"]},
            "plugin": {"inventory": {"read_seconds": 30}},
            "log": {"level": level},
        }
    )


# -- what is in the store ----------------------------------------------------------


async def seed(home: Path, size: Size) -> None:
    """Fill the store of a gateway that has answered once, whose rows are multiplied."""
    async with Gateway(settings(home, level="error")) as gateway:
        await gateway.chat("what is 17*23, and what time is it?")
    await asyncio.to_thread(_fill, home, size)


def _fill(home: Path, size: Size) -> None:
    with sqlite3.connect(home / "hookgate.db") as store:
        store.row_factory = sqlite3.Row
        _audit(store, Sealer(key_from_file(home / "audit.key")), size.rows)
        _turns(store, size.turns)


def _add(store: sqlite3.Connection, table: str, rows: Any) -> None:
    first = next(rows)
    names, places = ", ".join(f'"{name}"' for name in first), ", ".join("?" * len(first))
    add = f"insert into {table} ({names}) values ({places})"
    store.execute(add, tuple(first.values()))
    store.executemany(add, (tuple(row.values()) for row in rows))


def _moment(place: int, count: int) -> str:
    """Return a time of the last month, the earlier the smaller the place."""
    at = time.time() - 3600 - (count - place) * 30 * 86_400 / count
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(at)) + f".{place % 1_000_000:06d}"


def _audit(store: sqlite3.Connection, sealer: Sealer, count: int) -> None:
    known = [dict(row) for row in store.execute("select * from audit_entry order by seq")]
    head: Head | None = None

    def rows() -> Any:
        nonlocal head
        for number in range(count):
            row = known[number % len(known)]
            turn = f"seeded-{number // 4}"
            made = {**row, "chain": "seeded", "at": _moment(number, count) + "+00:00", "turn": turn}
            sealed = sealer.chained(made, head)
            head = Head(chain="seeded", seq=sealed["seq"], seal=sealed["seal"])
            yield {name: sealed[name] for name in row}

    _add(store, "audit_entry", rows())


def _turns(store: sqlite3.Connection, count: int) -> None:
    row = dict(store.execute("select * from dashboard_turn").fetchone())

    def rows() -> Any:
        for number in range(count):
            at, id = _moment(number, count) + "+00:00", f"seeded-{number}"
            changes = {"id": id, "root": id, "started": at, "place": f"{at}/{id}"}
            yield {**row, **changes, "milliseconds": 5.0 + number % 900}

    _add(store, "dashboard_turn", rows())


# -- what is looked at -------------------------------------------------------------


@dataclass
class Seen:
    """What was measured.

    Attributes:
        took: Milliseconds of each operation, by its name.
        paints: First paints, in milliseconds.
        rows: Until a view had its rows, by view.
        tasks: Long tasks while idle, by view.
        frames: Frames a second, by what was done.
        memory: Megabytes, each minute or so.
    """

    took: dict[str, list[float]] = field(default_factory=dict)
    paints: list[float] = field(default_factory=list)
    rows: dict[str, float] = field(default_factory=dict)
    tasks: dict[str, list[float]] = field(default_factory=dict)
    frames: dict[str, float] = field(default_factory=dict)
    memory: list[float] = field(default_factory=list)


async def tell(gateway: Gateway) -> None:
    """Tell of 50 things a second, some of them in the log."""
    log, number = gateway.log.logger("crowd"), 0
    while True:
        number += 1
        kind = TOLD[number % len(TOLD)]
        data = {"part": "crowd", "what": f"thing {number}", "ending": "done"}
        gateway.host.events.publish(Event(kind, data, turn=f"seeded-{number}", scope="read"))
        if number % 5 == 0:
            log.info("something happened", number=number)
        await asyncio.sleep(0.02)


@asynccontextmanager
async def page_of(home: Path, size: Size) -> AsyncIterator[tuple[Any, str]]:
    """Serve the gateway, and yield a page of it and its address."""
    from playwright.async_api import async_playwright

    gateway = Gateway(settings(home), plugins=[Crowd(size)])
    # The log grows as that of a busy gateway does, and is written nowhere.
    gateway.log._stream = io.StringIO()
    with gateway.log.as_default():
        async with gateway, listen(gateway) as listener, async_playwright() as driver:
            browser = await driver.chromium.launch(executable_path=_chromium(), args=FLAGS)
            context = await browser.new_context(viewport={"width": 1200, "height": 900})
            await context.add_init_script(WATCH)
            telling = asyncio.create_task(tell(gateway))
            try:
                yield await context.new_page(), listener.url
            finally:
                telling.cancel()
                await browser.close()


async def look(page: Any, url: str, views: Sequence[str], size: Size, seen: Seen) -> None:
    """Look at each view: load it, do nothing, scroll, search."""
    for view in views:
        await page.goto("about:blank")
        began = time.perf_counter()
        await page.goto(f"{url}/ui/#/{view}")
        await page.wait_for_function(SHOWN)
        seen.rows[view or "home"] = (time.perf_counter() - began) * 1000
        seen.paints.append(await page.evaluate(PAINTED))
        await page.wait_for_timeout(1_000)
        await page.evaluate("() => { globalThis.tasks = []; }")
        await page.wait_for_timeout(size.idle * 1000)
        seen.tasks[view or "home"] = await page.evaluate("() => globalThis.tasks")
        seen.frames[f"scrolling {view or 'home'}"] = _rate(await page.evaluate(SCROLL, 3))
        if view in SEARCHED:
            await page.focus("[data-search]")
            counting = asyncio.create_task(page.evaluate("() => globalThis.frames(3)"))
            await page.keyboard.type("thing number 77", delay=120)
            seen.frames[f"filtering {view}"] = _rate(await counting)
        for name, took in await page.evaluate("() => globalThis.took"):
            seen.took.setdefault(name, []).append(took)


def _rate(at: Sequence[float]) -> float:
    return (len(at) - 1) / (at[-1] - at[0]) * 1000


async def remember(page: Any, minutes: float, seen: Seen) -> None:
    """Walk through the views without loading anew, and note what the page holds."""
    devtools = await page.context.new_cdp_session(page)
    await devtools.send("Performance.enable")
    end, looked = time.monotonic() + minutes * 60, 0.0
    while time.monotonic() < end:
        for view in VIEWS:
            await page.evaluate("view => { location.hash = `#/${view}`; }", view)
            await page.wait_for_timeout(2_000)
        if time.monotonic() - looked >= min(60.0, minutes * 6):
            looked = time.monotonic()
            await page.evaluate("() => { location.hash = '#/'; }")
            await page.wait_for_timeout(1_000)
            await devtools.send("HeapProfiler.collectGarbage")
            metrics = (await devtools.send("Performance.getMetrics"))["metrics"]
            held = next(one["value"] for one in metrics if one["name"] == "JSHeapUsedSize")
            seen.memory.append(held / 1e6)
            # What is noted here is none of the page's.
            await page.evaluate("() => { globalThis.took = []; }")


# -- figures -----------------------------------------------------------------------


def _p95(values: Sequence[float]) -> float:
    ordered = sorted(values)
    return ordered[-(-95 * len(ordered) // 100) - 1]


def figures(seen: Seen, size: Size) -> list[Figure]:
    """Return what was measured, with its goals."""
    of = f"{size.rows:,} audit rows, {size.turns:,} turns, {size.records:,} capabilities"
    every = [took for one in seen.took.values() for took in one]
    slowest = sorted(seen.took, key=lambda name: -_p95(seen.took[name]))[:5]
    tasks = [task for one in seen.tasks.values() for task in one]
    found = [
        Figure(name="answers, p95", value=_p95(every), unit="ms", against=of, goal=200),
        *(
            Figure(
                name=f"  {name}, p95 of {len(seen.took[name])}",
                value=_p95(seen.took[name]),
                unit="ms",
            )
            for name in slowest
        ),
        Figure(
            name="first paint, median", value=statistics.median(seen.paints), unit="ms", goal=500
        ),
        Figure(name="first paint, worst view", value=max(seen.paints), unit="ms"),
    ]
    for view, took in sorted(seen.rows.items(), key=lambda one: -one[1])[:4]:
        found.append(Figure(name=f"until {view} has its rows", value=took, unit="ms"))
    found.append(Figure(name="long tasks while idle", value=len(tasks), unit="tasks", goal=0))
    found.append(Figure(name="  the longest", value=max(tasks, default=0), unit="ms", goal=50))
    for view, held in seen.tasks.items():
        if held:
            found.append(Figure(name=f"  of {view}", value=len(held), unit="tasks"))
    for name, rate in sorted(seen.frames.items(), key=lambda one: one[1])[:8]:
        found.append(Figure(name=name, value=rate, unit="frames/s", goal=50, at_least=True))
    if len(seen.memory) > 2:
        warm = statistics.mean(seen.memory[1:3])
        found += [
            Figure(name="memory after a walk", value=warm, unit="MB"),
            Figure(
                name=f"memory after {size.minutes:g} minutes",
                value=seen.memory[-1] / warm,
                unit="ratio",
                against="of that",
                goal=1.1,
            ),
        ]
    return found


def _idle_share() -> float:
    """Return how much of the machine is free now."""

    def read() -> tuple[int, int]:
        numbers = [int(one) for one in Path("/proc/stat").read_text().split("\n")[0].split()[1:]]
        return numbers[3] + numbers[4], sum(numbers)

    if not Path("/proc/stat").exists():
        return float("nan")
    before = read()
    time.sleep(2)
    after = read()
    return (after[0] - before[0]) / (after[1] - before[1])


async def measured(home: Path, size: Size, views: Sequence[str]) -> Seen:
    """Seed, look, and return what was seen."""
    seen = Seen()
    began = time.monotonic()
    if not (home / "hookgate.db").exists():
        await seed(home, size)
        print(f"seeded in {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)
    async with page_of(home, size) as (page, url):
        page.set_default_timeout(60_000)
        await look(page, url, views[:1], size, Seen())
        await look(page, url, views, size, seen)
        if size.minutes:
            await remember(page, size.minutes, seen)
    return seen


def _missing() -> str:
    """Return what is not there to look at a page with; "" where all of it is."""
    if find_spec("playwright") is None:
        return "playwright"
    return "" if _chromium() else "Chromium (HOOKGATE_CHROMIUM names one)"


def _chromium() -> str:
    return os.environ.get("HOOKGATE_CHROMIUM") or shutil.which("chromium") or ""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a fiftieth of the rows, five views")
    parser.add_argument("--minutes", type=float, help="how long memory is looked at")
    parser.add_argument("--look", nargs="*", help="these views alone")
    parser.add_argument("--home", type=Path, help="keep the seeded home here, for another run")
    given = parser.parse_args()
    if missing := _missing():
        print(f"NO {missing}: the dashboard is NOT measured", file=sys.stderr)
        return
    size = Size(rows=20_000, turns=2_000, idle=1, minutes=0) if given.quick else Size()
    if given.minutes is not None:
        size.minutes = given.minutes
    views = given.look or (QUICK if given.quick else VIEWS)
    free = _idle_share()
    with tempfile.TemporaryDirectory() as folder:
        home = given.home or Path(folder)
        home.mkdir(exist_ok=True)
        seen = asyncio.run(measured(home, size, views))
    report("dashboard", [*figures(seen, size), Figure(name="idle share", value=free, unit="ratio")])


if __name__ == "__main__":
    main()
