"""The kind ``slack``: the Events API, interactive buttons, and messages by the Web API."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any
from urllib.parse import parse_qs

from hookgate import (
    Address,
    ChannelError,
    ChannelFeatures,
    Choice,
    Content,
    Egress,
    Host,
    Parsed,
    RawMessage,
    ReceivedMessage,
    Webhook,
    WebhookReply,
    plain_text,
)
from hookgate.builtin_plugins.channels.kinds import Api, read_json
from hookgate.builtin_plugins.channels.settings import ChannelSettings

API = "https://slack.com/api"

LONGEST = 3900
"""Slack advises to keep a message below 4,000 characters."""

EDIT_SECONDS = 1.5
"""Slack takes some 50 changes a minute of all conversations together."""

SECTION = 3000
"""The longest text of one block."""

TRANSIENT = frozenset(
    ("ratelimited", "rate_limited", "internal_error", "service_unavailable", "request_timeout")
)
_WRITTEN = (None, "file_share", "thread_broadcast")
"""What a message that somebody has written is of: nothing more, files, or a reply shown to all."""
_MENTION = re.compile(r"^\s*<@[A-Z0-9]+>\s*")


class SlackChannel:
    """A bot in a workspace."""

    sandboxed = False
    features = ChannelFeatures(
        edit=True,
        threads=True,
        max_length=LONGEST,
        markdown=True,
        choices=True,
        edit_seconds=EDIT_SECONDS,
    )

    def __init__(self, host: Host, egress: Egress, name: str, settings: ChannelSettings) -> None:
        self.name = name
        self.connection = Webhook(
            verification="hmac-sha256",
            secret=settings.secret or f"{name}_secret",
            header="X-Slack-Signature",
            prefix="v0=",
            timestamp="X-Slack-Request-Timestamp",
            signed="v0:{timestamp}:{body}",
        )
        self._url = (settings.api or API).rstrip("/")
        token = settings.token or f"{name}_token"
        self._api = Api(host, egress, name, f"{self._url}/*", token)

    # -- coming in ---------------------------------------------------------

    async def parse_incoming(self, raw: RawMessage) -> Parsed:
        """Read an event, a button that was pressed, or the check of the URL.

        Raises:
            ChannelError: It is nothing of that.
        """
        try:
            if raw.headers.get("content-type", "").startswith("application/x-www-form-urlencoded"):
                form = parse_qs(raw.body.decode(), max_num_fields=20)
                return Parsed(messages=_pressed(json.loads(form["payload"][0])))
            found = json.loads(raw.body)
            if found["type"] == "url_verification":
                challenge = str(found["challenge"])[:1000].encode()
                return Parsed(reply=WebhookReply(headers=_PLAIN, body=challenge))
            if found["type"] == "event_callback":
                return Parsed(messages=_said(found))
        except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
            raise ChannelError(f"found no event of Slack: {error!r}") from error
        return Parsed()

    # -- going out ---------------------------------------------------------

    async def send(
        self,
        address: Address,
        content: Content,
        *,
        thread: str = "",
        choices: Sequence[Choice] = (),
        key: str = "",
    ) -> str:
        """Post a message. Slack takes no key of idempotency.

        Raises:
            ChannelError: It was not posted.
        """
        said = _message(address, content, choices)
        if thread:
            said["thread_ts"] = thread
        return str((await self._call("chat.postMessage", said)).get("ts", ""))

    async def edit(
        self, address: Address, message_id: str, content: Content, *, choices: Sequence[Choice] = ()
    ) -> None:
        """Change a message.

        Raises:
            ChannelError: It was not changed.
        """
        said = {"blocks": [], **_message(address, content, choices), "ts": message_id}
        await self._call("chat.update", said)

    async def _call(self, method: str, said: dict[str, Any]) -> dict[str, Any]:
        answer = await self._api.call("POST", f"{self._url}/{method}", json.dumps(said).encode())
        found = read_json(answer)
        if not found.get("ok"):
            # Most failures come with the status 200.
            error = str(found.get("error", "no JSON"))
            raise ChannelError(f"{self.name}: {method}: {error}", transient=error in TRANSIENT)
        return found


_PLAIN = {"Content-Type": "text/plain; charset=utf-8"}


def _said(found: dict[str, Any]) -> list[ReceivedMessage]:
    """Return what somebody has written. What bots write, this one too, is passed over."""
    event = found["event"]
    kinds = event.get("type") in ("message", "app_mention")
    if not kinds or event.get("bot_id") or event.get("subtype") not in _WRITTEN:
        return []
    channel, ts = str(event["channel"]), str(event["ts"])
    direct = event.get("channel_type") == "im"
    text = str(event.get("text", ""))
    bots = [str(one.get("user_id")) for one in found.get("authorizations") or ()]
    mentioned = any(f"<@{bot}>" in text for bot in bots) or event["type"] == "app_mention"
    message = ReceivedMessage(
        # A mention comes as two events of different ids; the message is one.
        id=f"{channel}:{ts}",
        content=_unescaped(_MENTION.sub("", text)),
        account=str(found.get("api_app_id") or "default"),
        peer=channel,
        team=str(found["team_id"]) if found.get("team_id") else None,
        sender=str(event.get("user", "")),
        thread=str(event.get("thread_ts") or ("" if direct else ts)),
        # Where Slack does not say which bot this is, nobody can tell whom it was said to.
        addressed=None if direct or not (bots or mentioned) else mentioned,
    )
    return [message]


def _pressed(found: dict[str, Any]) -> list[ReceivedMessage]:
    if found["type"] != "block_actions":
        return []
    return [
        ReceivedMessage(
            id=f"action:{action['action_ts']}:{found['user']['id']}",
            account=str(found.get("api_app_id") or "default"),
            peer=str(found["channel"]["id"]),
            team=str((found.get("team") or {}).get("id") or "") or None,
            sender=str(found["user"]["id"]),
            choice=str(action.get("value", "")),
        )
        for action in found["actions"]
    ]


def _message(address: Address, content: Content, choices: Sequence[Choice]) -> dict[str, Any]:
    text = plain_text(content)
    # A question is shown byte by byte; an answer as its Markdown means it.
    shown = _escaped(text) if choices else mrkdwn(text)
    said: dict[str, Any] = {"channel": address.peer, "text": shown}
    if choices:
        buttons = [
            {
                "type": "button",
                "text": {"type": "plain_text", "text": one.label},
                "value": one.data,
                "action_id": one.data,
            }
            for one in choices
        ]
        sections = [
            {"type": "section", "text": {"type": "mrkdwn", "text": part}} for part in _parts(text)
        ]
        said["blocks"] = [*sections, {"type": "actions", "elements": buttons}]
    return said


_CODE = re.compile(r"(```.*?(?:```|\Z)|`[^`\n]+`)", re.DOTALL)
_BOLD = re.compile(r"(\*\*|__)(?=\S)([^\n]{1,2000}?)(?<=\S)\1")
_HEADING = re.compile(r"^#{1,6} +(\S.*)$", re.MULTILINE)
_SLANTED = re.compile(r"(?<![\w*])\*(?=[^\s*])([^*\n]{1,2000}?)(?<=\S)\*(?![\w*])")
_STRUCK = re.compile(r"~~(?=\S)([^\n]{1,2000}?)(?<=\S)~~")
_LINK = re.compile(r"\[([^\]\n]{1,500})\]\(((?:https?://|mailto:)[^\s)]{1,2000})\)")
_ITEM = re.compile(r"^( *)[-*] ", re.MULTILINE)


def mrkdwn(text: str) -> str:
    """Return Markdown as Slack writes it, escaped; code stays as it is.

    Of a link its address is shown beside its name: Slack would hide where it leads.
    """
    parts = _CODE.split(text)
    # Of a split by one group every second part is what the group has found.
    parts[::2] = map(_marked, map(_escaped, parts[::2]))
    parts[1::2] = map(_escaped, parts[1::2])
    return "".join(parts)


def _marked(text: str) -> str:
    text = _LINK.sub(r"\1 (\2)", _ITEM.sub("\\1\u2022 ", text))
    text = _HEADING.sub(_headed, _BOLD.sub("\0\\2\0", text))
    return _STRUCK.sub(r"~\1~", _SLANTED.sub(r"_\1_", text)).replace("\0", "*")


def _headed(found: re.Match[str]) -> str:
    """Return a heading in bold, without the signs that may close it."""
    # Not by the expression: one that leaves them out looks at each ending anew.
    said = found[1].rstrip()
    return f"\0{said.rstrip('#').rstrip() or said}\0"


def _parts(text: str) -> list[str]:
    """Return `text` escaped, in pieces that fit a block; every character is in one of them."""
    parts, part = [], ""
    for character in text:
        escaped = _escaped(character)
        if len(part) + len(escaped) > SECTION:
            parts.append(part)
            part = ""
        part += escaped
    return [*parts, part]


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _unescaped(text: str) -> str:
    return text.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")
