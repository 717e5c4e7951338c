"""Channels that come with hookgate, in Python: a module for each kind."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from hookgate import (
    ChannelError,
    Egress,
    EgressDeniedError,
    EgressFailedError,
    Host,
    HostedChannel,
    wait_of,
)
from hookgate.builtin_plugins.channels.settings import ChannelSettings
from hookgate.kit.durations import retry_after

if TYPE_CHECKING:
    import httpx


def channel_of(host: Host, egress: Egress, name: str, settings: ChannelSettings) -> HostedChannel:
    """Return the channel of a section that has a kind."""
    # Who has no such channel loads none.
    from hookgate.builtin_plugins.channels.kinds.discord import DiscordChannel
    from hookgate.builtin_plugins.channels.kinds.json_webhook import JsonChannel
    from hookgate.builtin_plugins.channels.kinds.slack import SlackChannel

    kinds: dict[str | None, type[JsonChannel | SlackChannel | DiscordChannel]] = {
        "json": JsonChannel,
        "slack": SlackChannel,
        "discord": DiscordChannel,
    }
    return kinds[settings.kind](host, egress, name, settings)


# -- calling the API of a platform -------------------------------------------------

SECONDS = 30.0
MAX_BYTES = 1024 * 1024


class Api:
    """What is reached by one grant, with a token in the header where there is one.

    Args:
        host: The gateway, for the secret.
        egress: The way out.
        name: The channel.
        grant: Where its requests may go.
        token: The name of the secret; "" for none.
        scheme: What stands before it in ``Authorization``.
    """

    def __init__(
        self, host: Host, egress: Egress, name: str, grant: str, token: str, scheme: str = "Bearer"
    ) -> None:
        self._host = host
        self._name = name
        self._token = token
        self._scheme = scheme
        self._client = egress.client(
            [grant], name=f"channel {name}", timeout=SECONDS, max_bytes=MAX_BYTES
        )

    async def has_token(self) -> bool:
        """Whether the secret is there."""
        return bool(await self._secret())

    async def call(
        self,
        method: str,
        url: str,
        body: bytes,
        *,
        headers: Mapping[str, str] | None = None,
        signed_in: bool = True,
    ) -> httpx.Response:
        """Send one request with a JSON body, and return the answer where it is a good one.

        Raises:
            ChannelError: It failed; `transient` where it may work later.
        """
        sent = {"content-type": "application/json; charset=utf-8", **(headers or {})}
        if signed_in and (token := await self._secret()):
            sent["authorization"] = f"{self._scheme} {token}"
        try:
            answer = await self._client.request(method, url, content=body, headers=sent)
        except EgressDeniedError as error:
            raise ChannelError(str(error)) from error
        except EgressFailedError as error:
            raise ChannelError(str(error), transient=True) from error
        if not answer.is_success:
            status = answer.status_code
            wait = retry_after(answer.headers, self._host.clock.now())
            raise StatusError(
                f"{self._name}: the platform answered {status}: {answer.text[:200]}",
                status=status,
                transient=status in (408, 409, 425, 429) or status >= 500,
                retry_after=wait_of(read_json(answer).get("retry_after")) if wait is None else wait,
            )
        return answer

    async def _secret(self) -> str:
        if not self._token:
            return ""
        # A secret can lie in a file, and may have been replaced.
        value = (await asyncio.to_thread(self._host.secrets.get, self._token) or "").strip()
        if value:
            self._host.secrets.register(value)
        return value


class StatusError(ChannelError):
    """The platform answered with a status that is no success.

    Attributes:
        status: The status.
    """

    def __init__(
        self, message: str, *, status: int, transient: bool, retry_after: float | None
    ) -> None:
        super().__init__(message, transient=transient, retry_after=retry_after)
        self.status = status


def read_json(answer: httpx.Response) -> dict[str, Any]:
    """Return the JSON object of an answer; an empty one where it has none."""
    try:
        found = answer.json()
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
