"""A way to ask a gateway something: one protocol, whether it runs here or elsewhere."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from hookgate.core.domain.errors import HookgateError
from hookgate.core.hooks.tasks import stop

if TYPE_CHECKING:
    from concurrent.futures import Future

    from hookgate import Gateway
    from hookgate.core.domain.events import Event

ENDS_WITH = {"chat.send": "done"}
"""Operations whose result comes first, and the event that comes last."""


class AnsweredError(HookgateError):
    """A gateway answered with an error.

    Attributes:
        code: The stable word for programs.
        action: What can be done about it.
        data: More for programs.
    """

    def __init__(self, message: str, data: Mapping[str, Any]) -> None:
        super().__init__(message)
        self.code = str(data.get("code", "failed"))
        self.action = str(data.get("action", ""))
        self.data = dict(data)


class Stream:
    """The events of one request, in order, and its result.

    Iterating ends with the request; its error, if it has one, is raised there.

    Attributes:
        cancel: Asks for its end; what is said about that still comes.
        over: Whether nothing more will come.
    """

    def __init__(self, method: str, cancel: Callable[[], object] = lambda: None) -> None:
        self.cancel = cancel
        self.over = False
        self._last = ENDS_WITH.get(method)
        self._failure: Exception | None = None
        self._endless = method == "events.subscribe"
        self._events: asyncio.Queue[tuple[str, Mapping[str, Any]] | None] = asyncio.Queue()
        self._result: asyncio.Future[Mapping[str, Any]] = asyncio.get_running_loop().create_future()

    async def result(self) -> Mapping[str, Any]:
        """Return the result, once it is there."""
        return await asyncio.shield(self._result)

    def put_event(self, kind: str, data: Mapping[str, Any]) -> None:
        """Take an event."""
        self._events.put_nowait((kind, data))
        if kind == self._last:
            self._end()

    def put_result(self, result: Mapping[str, Any]) -> None:
        """Take the result."""
        if not self._result.done():
            self._result.set_result(result)
        if self._last is None and not self._endless:
            self._end()

    def fail(self, error: Exception) -> None:
        """Take the error with which the request ended."""
        self._failure = error
        if not self._result.done():
            self._result.set_exception(error)
            # Seen here, in case that nobody asks for the result.
            self._result.exception()
        self._end()

    def _end(self) -> None:
        self.over = True
        self._events.put_nowait(None)

    async def __aiter__(self) -> AsyncIterator[tuple[str, Mapping[str, Any]]]:
        while (item := await self._events.get()) is not None:
            yield item
        if self._failure is not None:
            raise self._failure


class Client(Protocol):
    """A gateway that can be asked."""

    @property
    def where(self) -> str:
        """Where the gateway runs, for people."""

    @property
    def degraded(self) -> Mapping[str, str]:
        """What does not work there as it should, and why, as of the beginning."""

    async def call(self, method: str, params: Mapping[str, Any] | None = None) -> Any:
        """Return the result of an operation, as JSON has it.

        Raises:
            HookgateError: It did not work.
        """

    def stream(
        self, method: str, params: Mapping[str, Any] | None = None
    ) -> AbstractAsyncContextManager[Stream]:
        """Start an operation and follow its events; leaving the block cancels it."""


class LocalClient:
    """A gateway in this process, asked as its owner."""

    def __init__(self, gateway: Gateway) -> None:
        from hookgate.core.domain.turn import Principal
        from hookgate.core.gateway.wire.rpc import Methods

        self.gateway = gateway
        self.where = "in this process"
        self.degraded = gateway.host.degraded
        self._methods = Methods(gateway.host)
        self._principal = Principal.owner("cli")

    async def call(self, method: str, params: Mapping[str, Any] | None = None) -> Any:
        """See `Client.call`."""
        stream = Stream(method)
        return await self._run(stream, method, params or {}, streaming=False)

    @asynccontextmanager
    async def stream(
        self, method: str, params: Mapping[str, Any] | None = None
    ) -> AsyncIterator[Stream]:
        """See `Client.stream`."""
        stream = Stream(method, lambda: task.cancel())

        async def work() -> None:
            try:
                stream.put_result(await self._run(stream, method, params or {}, streaming=True))
            except Exception as error:  # noqa: BLE001 - raised again where the stream is read
                stream.fail(error)

        task = asyncio.create_task(work())
        try:
            yield stream
        finally:
            await stop(task)

    async def _run(
        self, stream: Stream, method: str, params: Mapping[str, Any], *, streaming: bool
    ) -> Any:
        import orjson

        from hookgate.core.gateway.operations import result_json
        from hookgate.core.settings.secret_store import redact_json

        secrets = self.gateway.host.secrets

        def emit(event: Event) -> None:
            stream.put_event(event.type, redact_json(secrets, event.data))

        def respond(result: Any) -> None:
            stream.put_result(shown(result))

        def shown(result: Any) -> Any:
            # A terminal is a way out as well: its text is kept, piped and pasted.
            return redact_json(secrets, orjson.loads(result_json(result)))

        try:
            return shown(await self._handled(method, params, emit, respond, streaming=streaming))
        except HookgateError as error:
            from hookgate.core.gateway.codes import describe_error

            problem = describe_error(self.gateway.host, error)
            if problem.message == str(error):
                raise
            raise AnsweredError(problem.message, problem.data) from None

    async def _handled(
        self,
        method: str,
        params: Mapping[str, Any],
        emit: Callable[[Event], None],
        respond: Callable[[Any], None],
        *,
        streaming: bool,
    ) -> Any:
        from hookgate.core.gateway.operations import Invocation

        found = self._methods.find(method, self._principal)
        invocation = Invocation(
            host=self.gateway.host,
            principal=self._principal,
            face="command",
            request_id="cli",
            emit=emit,
            respond=respond,
            streaming=streaming,
            path="cli",
        )
        return await found.handler(invocation, found.read(params))


# -- loop ------------------------------------------------------------------------

# An event loop on a thread of its own: it goes on while the main thread draws or waits.

T = TypeVar("T")


class LoopThread:
    """Runs coroutines beside the main thread, where Ctrl-C arrives."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="gateway", daemon=True)
        self._thread.start()

    def start(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Start `work` there."""
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run `work` there and return its result; Ctrl-C cancels it, and waits for its end."""
        ended = threading.Event()

        async def whole() -> T:
            try:
                return await work
            finally:
                ended.set()

        future = self.start(whole())
        try:
            return future.result()
        except KeyboardInterrupt:
            future.cancel()
            ended.wait()
            raise

    def close(self) -> None:
        """Stop the loop and wait for its thread."""

        async def last() -> None:
            await self._loop.shutdown_asyncgens()
            await self._loop.shutdown_default_executor()

        self.run(last())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
