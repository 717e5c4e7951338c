from __future__ import annotations

import base64
import io
import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal
from urllib.parse import quote

import pytest
import structlog
from hypothesis import given
from hypothesis import strategies as st

from hookgate.core.domain.errors import ConfigError, StartError, StoreError
from hookgate.core.log import EVERYTHING, LIBRARIES, Log
from hookgate.core.settings.schema import LogSettings, Settings
from hookgate.core.settings.secret_store import MASK, SecretStore

CANARIES = [f'canary/{number}+{"x" * number}=\u00e9"q' for number in range(12)]
Format = Literal["console", "json"]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def secrets(*values: str) -> SecretStore:
    store = SecretStore(Settings(home=Path("/nonexistent")), {})
    for value in values:
        store.register(value)
    return store


def opened(
    how: Format = "json",
    *values: str,
    level: Literal["debug", "info", "warning", "error"] = "info",
) -> tuple[Log, io.StringIO]:
    stream = io.StringIO()
    return Log(LogSettings(level=level, format=how), secrets(*values), stream=stream), stream


def lines(stream: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


@pytest.fixture(autouse=True)
def _nothing_stays_behind() -> Iterator[None]:
    before = [logging.getLogger(name).handlers[:] for name in (*LIBRARIES, *EVERYTHING)]
    configured = structlog.is_configured()
    yield
    assert before == [logging.getLogger(name).handlers for name in (*LIBRARIES, *EVERYTHING)]
    assert configured == structlog.is_configured()


# -- lines -----------------------------------------------------------------


def test_a_line_of_json_says_when_how_urgent_what_and_who() -> None:
    log, stream = opened()
    log.logger("hookgate.audit", plugin="audit").warning("row lost", row=7, why={"a": [1, None]})
    (line,) = lines(stream)
    assert list(line)[:3] == ["time", "level", "event"]
    assert line["time"].endswith("+00:00")
    del line["time"]
    assert line == {
        "level": "warning",
        "event": "row lost",
        "plugin": "audit",
        "row": 7,
        "why": {"a": [1, None]},
        "logger": "hookgate.audit",
    }


def test_lines_below_the_level_are_not_written() -> None:
    log, stream = opened(level="warning")
    logger = log.logger()
    logger.info("quiet")
    logger.warning("loud")
    assert [line["event"] for line in lines(stream)] == ["loud"]


def test_auto_is_console_on_a_terminal_and_json_elsewhere() -> None:
    for stream, is_json in ((io.StringIO(), True), (Terminal(), False)):
        Log(LogSettings(), secrets(), stream=stream).logger().info("hello", a=1)
        assert stream.getvalue().startswith("{") == is_json
        assert ("\x1b[" in stream.getvalue()) != is_json


def test_bound_context_variables_stand_in_the_line() -> None:
    log, stream = opened()
    with structlog.contextvars.bound_contextvars(turn="turn_1"):
        log.logger().info("inside")
    log.logger().info("outside")
    assert [line.get("turn") for line in lines(stream)] == ["turn_1", None]


class Unprintable:
    def __repr__(self) -> str:
        raise RuntimeError("no repr")


def test_a_value_that_cannot_be_shown_does_not_stop_the_line() -> None:
    nested: list[Any] = []
    nested.append(nested)
    values = {
        "bad": Unprintable(),
        "huge": 2**80,
        "half": "\ud800",
        "loop": nested,
        "set": {1},
        "bytes": b"\xff",
        "nan": float("nan"),
        "mapping": {Unprintable(): 1, 2: "\ud800"},
    }
    for how in ("json", "console"):
        log, stream = opened(how)
        log.logger().info("odd", **values)
        assert "RuntimeError" in stream.getvalue()
        assert str(2**80) in stream.getvalue()
    assert len(lines(opened("json")[1])) == 0


def test_a_stream_that_is_closed_does_not_stop_the_caller() -> None:
    log, stream = opened()
    stream.close()
    log.logger().info("nobody reads this")
    assert stream.closed


def test_a_stream_of_a_narrow_encoding_gets_escapes() -> None:
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding="ascii")
    Log(LogSettings(format="console"), secrets(), stream=stream).logger().info("caf\u00e9 \u2028")
    assert b"caf\\xe9" in raw.getvalue()


def test_text_from_outside_cannot_forge_a_line_or_move_the_cursor() -> None:
    log, stream = opened("console")
    log.logger().info("name\n12:00:00 [error] forged\x1b[2J\x9b2J\r", peer="a\x1b]0;title\x07")
    text = stream.getvalue()
    assert not set(text) & {"\x1b", "\x9b", "\x07", "\r"}
    assert text.splitlines()[1].startswith("    12:00:00 [error] forged")


def test_lines_can_be_held_back_until_it_is_known_how_something_ends() -> None:
    log, stream = opened()
    with log.held():
        log.logger().info("first")
        assert stream.getvalue() == ""
    assert [line["event"] for line in lines(stream)] == ["first"]


@pytest.mark.parametrize(("cause", "written"), [(StoreError("held"), 0), (KeyError("bug"), 1)])
def test_lines_before_an_error_on_purpose_are_dropped_and_those_of_a_fault_are_not(
    cause: Exception, written: int
) -> None:
    log, stream = opened()
    with pytest.raises(StartError), log.held():
        log.logger().error("hook failed")
        raise StartError("it cannot start") from cause
    log.logger().info("after")
    assert len(lines(stream)) == written + 1


# -- secrets ---------------------------------------------------------------


def raise_chain(first: str, second: str, third: str) -> None:
    try:
        try:
            raise KeyError(first)
        except KeyError:
            # The one that was being handled is shown as well, as context.
            raise ValueError({"body": [second]})  # noqa: B904
    except ValueError as error:
        error.add_note(f"note: {third}")
        raise RuntimeError(f"outer {third}") from error


@pytest.mark.parametrize("how", ["json", "console"])
def test_nothing_secret_gets_through_by_any_way(how: Format) -> None:
    log, stream = opened(how, *CANARIES)
    c = CANARIES
    logger = log.logger("hookgate.test", bound=c[0])
    with log.captured(), log.as_default():
        logger.info(f"message {c[1]}", field=c[2], **{c[3]: 1})
        logger.info("nested", deep={"a": [{"b": (c[4], {c[5]})}], c[6]: None}, raw=c[7].encode())
        logger.info("formatted %s", c[8])
        logger.info(
            "encoded", url=f"https://h/?k={quote(c[9])}", basic=base64.b64encode(c[9].encode())
        )
        logger.info("embedded", body=json.dumps({"inner": json.dumps({"key": c[10]})}))
        try:
            raise_chain(c[10], c[11], c[0])
        except RuntimeError as error:
            logger.exception(f"failed with {c[1]}")
            logger.error("again", exc_info=error)
            logging.getLogger("httpx").error("GET %s", f"https://h/{c[2]}", exc_info=error)
            group = ExceptionGroup(c[3], [error, ValueError(c[4])])
            logger.error("group", exc_info=group)
        structlog.get_logger("third.party").warning("spoke", key=c[5])
        logging.getLogger("aiohttp.server").warning("bad %r", {"authorization": c[6]})
        logger.info("object", value=Path(c[7]), error=RuntimeError(c[8]))
    text = stream.getvalue()
    assert text.count(MASK) > 25
    assert "canary" not in text
    assert base64.b64encode(CANARIES[9].encode()).decode()[:12] not in text
    assert "Traceback" in text
    assert "direct cause" in text


@given(
    st.recursive(
        st.sampled_from(CANARIES) | st.text(max_size=5) | st.integers(),
        lambda inner: (
            st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(CANARIES), inner)
        ),
        max_leaves=8,
    )
)
def test_no_shape_of_a_field_lets_a_secret_through(value: Any) -> None:
    for how in ("json", "console"):
        log, stream = opened(how, *CANARIES)
        log.logger().info("shape", value=value)
        assert "canary" not in stream.getvalue()


def test_a_secret_that_becomes_known_later_is_masked_from_then_on() -> None:
    known, stream = secrets(), io.StringIO()
    log = Log(LogSettings(format="json"), known, stream=stream)
    known.register("canary-later")
    log.logger().info("canary-later")
    assert lines(stream)[0]["event"] == MASK


# -- libraries -------------------------------------------------------------


def test_libraries_go_through_the_same_sink_from_warning_on() -> None:
    log, stream = opened()
    with log.captured():
        logging.getLogger("httpx").info("HTTP Request: GET")
        logging.getLogger("aiohttp.server").error("broke %s", "here")
        logging.getLogger("sqlalchemy.pool").warning("bad %d", "arguments")
        logging.getLogger("unrelated").error("not ours")
    logging.getLogger("httpx").error("after the end")
    assert [(line["logger"], line["level"], line["event"]) for line in lines(stream)] == [
        ("aiohttp.server", "error", "broke here"),
        ("sqlalchemy.pool", "warning", "'bad %d' with arguments that do not fit"),
    ]


def test_libraries_are_heard_wholly_where_the_level_is_debug() -> None:
    log, stream = opened(level="debug")
    before = logging.getLogger("httpcore").level
    with log.captured():
        logging.getLogger("httpcore.connection").debug("connect")
    assert [line["event"] for line in lines(stream)] == ["connect"]
    assert logging.getLogger("httpcore").level == before


def test_a_process_that_is_a_gateway_hears_every_library() -> None:
    log, stream = opened()
    with log.captured(EVERYTHING):
        logging.getLogger("unrelated").error("heard")
        logging.getLogger("hookgate.plugin").warning("heard too")
    assert [line["event"] for line in lines(stream)] == ["heard", "heard too"]


def test_two_gateways_hear_libraries_and_mask_each_others_secrets() -> None:
    first, first_stream = opened("json", "canary-first")
    second, second_stream = opened("json", "canary-second")
    logger = logging.getLogger("aiohttp")
    before = logger.propagate
    with first.captured():
        with second.captured():
            logger.error("canary-first canary-second")
        assert logger.propagate is False
        logger.error("only the first")
    assert logger.propagate == before
    assert [line["event"] for line in lines(first_stream)] == [f"{MASK} {MASK}", "only the first"]
    assert [line["event"] for line in lines(second_stream)] == [f"{MASK} {MASK}"]


def test_two_logs_are_apart() -> None:
    first, first_stream = opened("json", "canary-first")
    second, second_stream = opened("console", level="error")
    first.logger().info("one")
    second.logger().info("two")
    second.logger().error("three")
    assert [line["event"] for line in lines(first_stream)] == ["one"]
    assert "three" in second_stream.getvalue()
    assert "two" not in second_stream.getvalue()


def test_a_logger_made_elsewhere_writes_to_the_default_only_while_there_is_one() -> None:
    elsewhere = structlog.get_logger("hookgate.plugins")
    log, stream = opened()
    other, other_stream = opened()
    with log.as_default():
        elsewhere.info("first", n=1)
        with other.as_default():
            elsewhere.info("second")
        elsewhere.info("third")
    assert [(line["event"], line["logger"]) for line in lines(stream)] == [
        ("first", "hookgate.plugins"),
        ("third", "hookgate.plugins"),
    ]
    assert [line["event"] for line in lines(other_stream)] == ["second"]


def test_the_tail_masks_the_secrets_of_the_other_gateway_in_the_process() -> None:
    (one, _), (two, _) = opened("json", "canary-1"), opened("json", "canary-2")
    with one.captured(("httpcore",)), two.captured(("httpcore",)):
        logging.getLogger("httpcore").error("both %s %s", "canary-1", "canary-2")
    for log in (one, two):
        (line,) = log.tail.lines()
        assert (line.level, line.logger) == ("error", "httpcore")
        assert line.event == "both [redacted] [redacted]"


def test_the_tail_keeps_what_is_bounded() -> None:
    log, stream = opened()
    log.logger().warning("w" * 5_000, **{f"f{number}": "x" * 5_000 for number in range(30)})
    (line,) = log.tail.lines()
    assert (len(line.event), len(line.fields), len(line.fields["f0"])) == (2_000, 20, 2_000)
    assert len(lines(stream)[0]["event"]) == 5_000


def test_what_is_dropped_while_lines_are_held_is_not_in_the_tail() -> None:
    log, _ = opened()
    with pytest.raises(ConfigError), log.held():
        log.logger().warning("said")
        raise ConfigError([])
    assert log.tail.lines() == []
