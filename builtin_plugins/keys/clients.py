"""What clients are told to come to this gateway: the lines that a new key is shown with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Literal, TypeAlias

Client: TypeAlias = Literal["claude-code", "codex", "opencode", "openai", "anthropic"]

_OPENCODE = (
    "export HOOKGATE_KEY={key}",
    'opencode.json: {{"provider": {{"anthropic": {{"options": {{"baseURL": "{url}/v1", '
    '"apiKey": "{{env:HOOKGATE_KEY}}"}}}}, "openai": {{"options": {{"baseURL": "{url}/v1", '
    '"apiKey": "{{env:HOOKGATE_KEY}}"}}}}}}}}',
)

_LINES: Mapping[Client, tuple[str, ...]] = {
    "claude-code": ("export ANTHROPIC_BASE_URL={url}", "export ANTHROPIC_AUTH_TOKEN={key}"),
    "codex": (
        "export HOOKGATE_KEY={key}",
        'codex -c model_provider=hookgate -c \'model_providers.hookgate={{name="hookgate", '
        'base_url="{url}/v1", env_key="HOOKGATE_KEY", wire_api="responses"}}\'{more}',
    ),
    "opencode": _OPENCODE,
    "openai": ("export OPENAI_BASE_URL={url}/v1", "export OPENAI_API_KEY={key}"),
    "anthropic": ("export ANTHROPIC_BASE_URL={url}", "export ANTHROPIC_API_KEY={key}"),
}
"""Each client's own variables and settings. Claude Code and Anthropic's SDKs add ``/v1`` by
themselves; of Claude Code's variables `ANTHROPIC_AUTH_TOKEN` counts before a login that it has."""


_CODEX_SEARCH = "web_search"
"""A tool that OpenAI runs and that Codex always asks for, unless it is told not to."""


def lines_for(client: Client, url: str, key: str, provider_tools: Sequence[str]) -> list[str]:
    """Return what makes a client come to `url` with `key`.

    Args:
        client: The client.
        url: Where it reaches the gateway.
        key: The key.
        provider_tools: Globs of the tools of a provider that the key may ask for.
    """
    searches = any(fnmatchcase(_CODEX_SEARCH, glob) for glob in provider_tools)
    more = "" if searches else f" -c {_CODEX_SEARCH}=disabled"
    return [line.format(url=url, key=key, more=more) for line in _LINES[client]]


def url_of(host: str, port: int) -> str:
    """Return the address of a gateway that listens on `host`, for clients of this machine."""
    near = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "[::1]"}
    return f"http://{near.get(host, f'[{host}]' if ':' in host else host)}:{port}"
