"""The log of a gateway: one sink, which masks every secret whatever brought it.

A `Log` is a value, as a gateway is: nothing of it is global until somebody says so. The
loggers of the libraries are the process's, so `Log.captured` borrows them for the length
of a ``with`` block, and `Log.as_default` does the same for loggers that were made without
a gateway at hand::

    log = Log(settings.log, secrets)
    with log.as_default(), log.captured():
        ...
"""

from __future__ import annotations

import json
import logging
import math
import re
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence, Set
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Self, TextIO, TypeAlias

import structlog
from structlog.typing import FilteringBoundLogger, Processor

from hookgate.core.domain.errors import HookgateError
from hookgate.core.domain.events import LogTail
from hookgate.core.domain.ports import Secrets

if TYPE_CHECKING:
    from hookgate.core.settings.schema import LogSettings

LIBRARIES = ("aiohttp", "alembic", "asyncio", "httpcore", "httpx", "sqlalchemy", "uvloop")
"""The standard library's loggers that write what happens inside a gateway."""

EVERYTHING = ("",)
"""The root logger: for a process that is a gateway and nothing else."""

OWN = "hookgate"
MAX_DEPTH = 8

_Entry: TypeAlias = tuple[str, str, str, str, Mapping[str, str]]
"""What `LogTail.keep` takes."""

_JSON: Mapping[str, Any] = {"ensure_ascii": False, "separators": (",", ":")}
_LEVELS = {"debug": 10, "info": 20, "warning": 30, "error": 40}
# What would move the cursor, or begin a line that the gateway did not write.
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029]")


class Log:
    """The sink of one gateway.

    Args:
        settings: The level, and how lines look.
        secrets: Masks what must not be seen.
        stream: Where lines go; standard error by default.
    """

    def __init__(
        self, settings: LogSettings, secrets: Secrets, *, stream: TextIO | None = None
    ) -> None:
        self._stream = sys.stderr if stream is None else stream
        self._secrets = secrets
        self._lock = threading.Lock()
        self._held: list[_Line] | None = None
        self.tail = LogTail()
        self.level = _LEVELS[settings.level]
        terminal = self._stream.isatty()
        console = settings.format == "console" or (settings.format == "auto" and terminal)
        render = _console(colors=terminal) if console else _json
        self._processors: list[Processor] = [
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            _add_name,
            structlog.processors.StackInfoRenderer(),
            structlog.processors.ExceptionRenderer(),
            _Redactor(self.redact, console=console),
            _kept(render),
        ]
        # The logger's own methods are cut off at the level before they build anything.
        self._wrapper = structlog.make_filtering_bound_logger(self.level)

    def redact(self, text: str) -> str:
        """Return `text` with every known secret masked."""
        return self._secrets.redact(text)

    def logger(self, name: str = OWN, **fields: Any) -> FilteringBoundLogger:
        """Return a logger that writes here.

        Args:
            name: Who speaks.
            fields: Stand in every line of it.
        """
        logger: FilteringBoundLogger = structlog.wrap_logger(
            _Output(self, name), self._processors, self._wrapper, dict
        )
        return logger.bind(**fields) if fields else logger

    def write(self, line: str) -> None:
        """Write one line, masked once more as it stands there."""
        line = _Line(self.redact(line), line.entry if isinstance(line, _Line) else None)
        # A log that cannot be written must not end the turn that wanted to say something.
        with self._lock, suppress(OSError, ValueError):
            if self._held is not None:
                self._held.append(line)
                return
            self._stream.write(_writable(line, self._stream) + "\n")
            self._stream.flush()
        if line.entry is not None:
            self.tail.keep(*line.entry)

    @contextmanager
    def held(self) -> Iterator[None]:
        """Keep lines back for the length of a ``with`` block, and write them at its end.

        They are dropped where the block ends with an error that was raised on purpose, all
        the way down: its text says it all. A fault's traceback is written.
        """
        self._held = []
        try:
            yield
        except HookgateError as error:
            if _on_purpose(error):
                self._held.clear()
            raise
        finally:
            lines, self._held = self._held, None
            for line in lines:
                self.write(line)

    def render(self, name: str, level: str, event: MutableMapping[str, Any]) -> _Line:
        """Return the line of something that another logger was told."""
        output = _Output(self, name)
        value: Any = event
        for processor in self._processors:
            value = processor(output, level, value)
        line: _Line = value
        return line

    @contextmanager
    def as_default(self) -> Iterator[None]:
        """Be the sink of ``structlog.get_logger()`` for the length of a ``with`` block."""
        before = structlog.get_config() if structlog.is_configured() else None
        structlog.configure(
            processors=self._processors,
            wrapper_class=self._wrapper,
            context_class=dict,
            logger_factory=lambda *names: _Output(self, *names[:1]),
            # Loggers that were made before, and outlive this, must not keep it.
            cache_logger_on_first_use=False,
        )
        try:
            yield
        finally:
            if before is None:
                structlog.reset_defaults()
            else:
                structlog.configure(**before)

    @contextmanager
    def captured(self, names: Sequence[str] = LIBRARIES) -> Iterator[None]:
        """Take what the standard library's loggers are told, for the length of a ``with`` block.

        Libraries are heard from ``warning`` on, and wholly where the level is ``debug``.
        Two gateways in one process both hear them, and each masks the other's secrets.
        """
        handlers = [_Handler(self, logging.getLogger(name)) for name in names]
        try:
            yield
        finally:
            for handler in handlers:
                handler.detach()


class _Line(str):
    """A line as it is written, with what is said in it."""

    __slots__ = ("entry",)
    entry: _Entry | None

    def __new__(cls, text: str, entry: _Entry | None) -> Self:
        made = super().__new__(cls, text)
        made.entry = entry
        return made

    def masked(self, redact: Callable[[str], str]) -> _Line:
        """Return the same with the secrets of somebody else masked, too."""
        if self.entry is None:
            return _Line(redact(self), None)
        time, level, logger, event, fields = self.entry
        safe = {redact(name): redact(text) for name, text in fields.items()}
        return _Line(redact(self), (time, level, redact(logger), redact(event), safe))


def _kept(render: Processor) -> Processor:
    """Return what renders a line and keeps what is said in it, beside."""

    def kept(logger: Any, method: str, event: MutableMapping[str, Any]) -> _Line:
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        own = ("event", "level", "logger", "time")
        fields = {
            name: value if isinstance(value, str) else json.dumps(value, **_JSON)
            for name, value in event.items()
            if name not in own
        }
        level, who = str(event.get("level", method)), str(event.get("logger", OWN))
        entry = (now, level, who, str(event.get("event", "")), fields)
        return _Line(str(render(logger, method, event)), entry)

    return kept


class _Output:
    """What structlog calls at the end: writes the line that the last processor made."""

    __slots__ = ("log", "name")

    def __init__(self, log: Log, name: str = OWN) -> None:
        self.log = log
        self.name = name

    def msg(self, line: str) -> None:
        self.log.write(line)

    debug = info = warning = warn = error = critical = fatal = failure = exception = msg


class _Handler(logging.Handler):
    """Takes the records of one of the standard library's loggers to the sink."""

    def __init__(self, log: Log, source: logging.Logger) -> None:
        super().__init__()
        self._log = log
        self._source = source
        others = self._others()
        # The first to come notes how the logger was, the last to leave restores it.
        self._before: tuple[int, bool] = (
            others[0]._before if others else (source.level, source.propagate)
        )
        source.addHandler(self)
        source.propagate = False
        if log.level <= logging.DEBUG:
            source.setLevel(logging.DEBUG)

    def _others(self) -> list[_Handler]:
        return [
            handler
            for handler in self._source.handlers
            if isinstance(handler, _Handler) and handler is not self
        ]

    def detach(self) -> None:
        self._source.removeHandler(self)
        if not self._others():
            level, self._source.propagate = self._before
            self._source.setLevel(level)

    def emit(self, record: logging.LogRecord) -> None:
        own = record.name.partition(".")[0] == OWN
        everything = own or self._log.level <= logging.DEBUG
        if record.levelno < (self._log.level if everything else max(self._log.level, 30)):
            return
        try:
            text = record.getMessage()
        except Exception:  # noqa: BLE001 - whatever a library's arguments do, the rest is told
            text = f"{record.msg!r} with arguments that do not fit"
        event: dict[str, Any] = {"event": text}
        if record.exc_info:
            event["exc_info"] = record.exc_info
        line = self._log.render(record.name, record.levelname.lower(), event)
        for other in self._others():
            line = line.masked(other._log.redact)
        self._log.write(line)


class _Redactor:
    """The last processor before the renderer: masks secrets in every text, at any depth.

    A renderer escapes; what stands two levels deep in escapes can only be found here.
    """

    def __init__(self, redact: Callable[[str], str], *, console: bool) -> None:
        self._redact = redact
        self._console = console

    def __call__(
        self, logger: Any, method: str, event: MutableMapping[str, Any]
    ) -> MutableMapping[str, Any]:
        clean = {self._text(str(key)): self._clean(value) for key, value in event.items()}
        if self._console:
            for key in ("exception", "stack"):
                if key in clean:
                    clean[key] = f"    {clean[key]}"
        return clean

    def _clean(self, value: Any, depth: int = 0) -> Any:
        if value is None or isinstance(value, bool | int | float):
            return value if not isinstance(value, float) or math.isfinite(value) else None
        if isinstance(value, str):
            return self._text(value)
        if depth >= MAX_DEPTH:
            return "…"
        if isinstance(value, Mapping):
            return {
                self._text(key if isinstance(key, str) else _printed(key)): self._clean(
                    item, depth + 1
                )
                for key, item in value.items()
            }
        if isinstance(value, bytes | bytearray):
            return self._text(value.decode("utf-8", "backslashreplace"))
        if isinstance(value, list | tuple | Set):
            return [self._clean(item, depth + 1) for item in value]
        return self._text(_printed(value))

    def _text(self, text: str) -> str:
        text = self._redact(text)
        if not self._console:
            return text
        text = _CONTROL.sub(lambda match: ascii(match.group())[1:-1], text)
        # A text of several lines stays readable, and none of them looks like a new entry.
        return text.replace("\n", "\n    ")


def _on_purpose(error: BaseException) -> bool:
    """Whether `error` and all that caused it are hookgate's own."""
    cause: BaseException | None = error
    while isinstance(cause, HookgateError):
        cause = cause.__cause__
    return cause is None


def _printed(value: Any) -> str:
    try:
        return repr(value)
    except Exception as error:  # noqa: BLE001 - an object that cannot be shown is no reason to fail
        return f"<{type(value).__name__} whose repr raises {type(error).__name__}>"


def _add_name(
    logger: Any, method: str, event: MutableMapping[str, Any]
) -> MutableMapping[str, Any]:
    if logger.name != OWN:
        event.setdefault("logger", logger.name)
    return event


def _json(logger: Any, method: str, event: Mapping[str, Any]) -> str:
    """Render one line of JSON: ``time``, ``level`` and ``event`` come first."""
    first = {
        "time": datetime.now(UTC).isoformat(timespec="milliseconds"),
        "level": event.get("level", method),
        "event": event.get("event", ""),
    }
    # Halves of surrogate pairs become escapes where the line is written.
    return json.dumps({**first, **{key: event[key] for key in event if key not in first}}, **_JSON)


def _console(*, colors: bool) -> Processor:
    # No formatter with colors for tracebacks: it would cut a secret into pieces that nobody
    # recognizes. `ExceptionRenderer` has made text of them already.
    render = structlog.dev.ConsoleRenderer(
        colors=colors,
        exception_formatter=structlog.dev.plain_traceback,
        sort_keys=False,
        timestamp_key="time",
    )

    def console(logger: Any, method: str, event: MutableMapping[str, Any]) -> str:
        event["time"] = datetime.now().astimezone().strftime("%H:%M:%S")
        return str(render(logger, method, event))

    return console


def _writable(line: str, stream: TextIO) -> str:
    encoding = getattr(stream, "encoding", None) or "utf-8"
    return line.encode(encoding, "backslashreplace").decode(encoding)
