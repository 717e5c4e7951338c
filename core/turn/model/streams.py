"""The chain of stream filters between a provider and a client.

Each filter wraps the stream of the one before it. A filter is limited at every step: the
time that it spends by itself counts, the time that it waits for its source does not.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from types import AsyncGeneratorType
from typing import Any

from hookgate.core.domain import models
from hookgate.core.domain.errors import HookError, HookResultError, HookTimeoutError
from hookgate.core.domain.models import ModelEvent
from hookgate.core.hooks.tasks import told

HOOK = "filter_stream"
EVENTS = (
    models.TextDelta,
    models.ReasoningDelta,
    models.ToolUseEvent,
    models.OpaqueDelta,
    models.Citation,
    models.UsageEvent,
    models.StopEvent,
    models.Frame,
)


async def close(stream: Any, *, limit: float) -> None:
    """Close an async iterator that can be closed, within `limit` seconds."""
    if isinstance(stream, AsyncGeneratorType) and stream.ag_frame is None:
        return  # it has come to its end
    aclose = getattr(stream, "aclose", None)
    if aclose is not None:
        async with asyncio.timeout(limit):
            await aclose()


class StreamSource:
    """What a filter reads from: stops the filter's clock while it waits for its own source.

    Attributes:
        failure: The exception that the source raised, if it did: not the filter's fault.
    """

    def __init__(self, events: AsyncIterator[ModelEvent]) -> None:
        self._events = events
        self.failure: BaseException | None = None
        self.clock: asyncio.Timeout | None = None
        self.limit = 0.0

    def __aiter__(self) -> StreamSource:
        return self

    async def __anext__(self) -> ModelEvent:
        clock = self.clock
        if clock is not None:
            clock.reschedule(None)
        try:
            return await self._events.__anext__()
        except StopAsyncIteration:
            raise
        except BaseException as error:
            self.failure = error
            raise
        finally:
            if clock is not None and clock is self.clock:
                clock.reschedule(asyncio.get_running_loop().time() + self.limit)

    async def aclose(self) -> None:
        """Close the source."""
        await close(self._events, limit=5.0)


class Filtered:
    """One filter's output, held to its contract."""

    def __init__(
        self, plugin: str, events: AsyncIterator[ModelEvent], source: StreamSource, limit: float
    ) -> None:
        self._plugin = plugin
        self._events = events
        self._source = source
        self._limit = limit
        source.limit = limit

    def __aiter__(self) -> Filtered:
        return self

    async def __anext__(self) -> ModelEvent:
        source = self._source
        try:
            async with asyncio.timeout(self._limit) as clock:
                source.clock = clock
                try:
                    event = await self._events.__anext__()
                finally:
                    source.clock = None
        except StopAsyncIteration:
            raise
        except TimeoutError as error:
            if error is source.failure:
                raise
            raise HookTimeoutError(
                HOOK, self._plugin, f"one step took longer than {self._limit:g} s"
            ) from error
        except HookError:
            raise
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if error is source.failure or (task is not None and task.cancelling()):
                raise
            raise HookError(HOOK, self._plugin, "it raised CancelledError") from error
        except BaseException as error:
            if error is source.failure:
                raise
            raise HookError(HOOK, self._plugin, told(error)) from error
        if not isinstance(event, EVENTS):
            raise HookResultError(
                HOOK, self._plugin, f"yielded {type(event).__name__}, expected a ModelEvent"
            )
        return event

    async def aclose(self) -> None:
        """Close the filter, then its source."""
        try:
            await close(self._events, limit=self._limit)
        finally:
            await self._source.aclose()
