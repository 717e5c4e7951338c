"""Sends figures to a collector: OTLP over HTTP, through the one checked way out."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from hookgate import EgressError

if TYPE_CHECKING:
    import httpx

LAST_SECONDS = 3.0
"""The limit of the last export, for which a stopping gateway waits."""

MAX_SAID = 300
"""Characters of what a collector says about a failure."""


class Exporter:
    """Sends the figures, one request at a time.

    Figures are cumulative: what a failed export did not bring, the next one does. So nothing is
    tried again before its time.

    Args:
        client: Reaches the collector and nothing else.
        endpoint: The collector's address.
        headers: Headers of every request.
        payload: Returns the request's body; runs on a thread.
        rejected: Reads what an answer says was not taken. Raises ValueError where it is no answer.
        failed: Hears why an export failed.
        worked: Hears that one did not.
    """

    def __init__(
        self,
        client: httpx.AsyncClient,
        endpoint: str,
        *,
        headers: Mapping[str, str],
        payload: Callable[[], bytes],
        rejected: Callable[[bytes], str],
        failed: Callable[[str], None],
        worked: Callable[[], None],
    ) -> None:
        self._client = client
        self._endpoint = endpoint
        self._headers = {**headers, "content-type": "application/x-protobuf"}
        self._payload = payload
        self._rejected = rejected
        self._failed = failed
        self._worked = worked

    async def run(self, interval: float) -> None:
        """Send every `interval` seconds until this is cancelled."""
        while True:
            await asyncio.sleep(interval)
            await self.send()

    async def send(self) -> None:
        """Send all figures once. A failure is told and not raised."""
        try:
            problem = await self._send()
        except EgressError as error:
            problem = str(error)
        except ValueError as error:
            problem = f"{self._endpoint}: {error}"
        if problem:
            self._failed(f"figures do not reach the collector: {problem}")
        else:
            self._worked()

    async def close(self) -> None:
        """Send what there is, for some seconds at most, and close the connections."""
        try:
            async with asyncio.timeout(LAST_SECONDS):
                await self.send()
        except TimeoutError:
            self._failed(f"the last figures did not reach {self._endpoint} in {LAST_SECONDS:g} s")
        finally:
            await self._client.aclose()

    async def _send(self) -> str:
        """Return what went wrong, or ""."""
        body = await asyncio.to_thread(self._payload)
        if not body:
            return ""
        response = await self._client.post(self._endpoint, content=body, headers=self._headers)
        if response.status_code != 200:
            said = " ".join(response.content[:4096].decode("utf-8", "replace").split())
            text = f"{self._endpoint} answered with HTTP {response.status_code}"
            return f"{text}: {said[:MAX_SAID]}" if said.isprintable() and said else text
        rejected = self._rejected(response.content)
        return f"{self._endpoint}: {rejected}" if rejected else ""
