"""What a key may do, and whether that lies within the rights of who made it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from fnmatch import fnmatchcase
from ipaddress import ip_address, ip_network
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import AfterValidator, Field

from hookgate import Claim, OperationModel, Principal
from hookgate.kit.durations import seconds_of

Scope: TypeAlias = Literal["chat", "approve", "operate", "read"]
Mode: TypeAlias = Literal["guard", "assist", "agent"]


def _network(text: str) -> str:
    return str(ip_network(text, strict=False))


def _end(text: str) -> str:
    if text:
        end_of(text, datetime.now(UTC))
    return text


def _some(scopes: tuple[Scope, ...]) -> tuple[Scope, ...]:
    if not scopes:
        raise ValueError("found none, expected one at least")
    return scopes


Network: TypeAlias = Annotated[str, AfterValidator(_network)]
Glob: TypeAlias = Annotated[str, Field(min_length=1, max_length=200)]
Many: TypeAlias = Annotated[tuple[Glob, ...] | None, Field(max_length=100)]


def end_of(text: str, now: datetime) -> datetime:
    """Return when a key ends: ``2027-01-31``, a time with its zone, or ``90d`` from now on.

    Raises:
        ValueError: It is none of these.
    """
    with suppress(ValueError, OverflowError):
        return now + timedelta(seconds=seconds_of(text))
    try:
        end = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(
            f"found {text[:40]!r}, expected a length of time such as `90d` or `12h`, or a time "
            "such as `2027-01-31` or `2027-01-31T12:00:00+00:00`"
        ) from None
    return end if end.tzinfo is not None else end.replace(tzinfo=UTC)


class Terms(OperationModel):
    """What a key may do. What is left out of a list of names allows all that its maker may."""

    scopes: Annotated[tuple[Scope, ...], AfterValidator(_some)] = ("chat",)
    """What a client with it may do."""
    models: Many = None
    """Globs of the models that may answer it, as `provider/model`."""
    agents: Many = None
    """Globs of the agents that it may speak to."""
    channels: Annotated[tuple[Glob, ...], Field(max_length=100)] = ("compat",)
    """The channels that it may speak in, under its own name as the account; `*` for any."""
    modes: tuple[Mode, ...] | None = None
    """The modes of the vendors' wires that it may use."""
    provider_tools: Annotated[tuple[Glob, ...], Field(max_length=100)] = ()
    """Globs of the tools that a provider runs itself and that it may ask for: `web_search*`."""
    client_tools: Literal["enforce", "observe"] = "enforce"
    """Whether calls of the client's tools are held to the policy, or only decided and recorded."""
    on_ask: Literal["hold", "refuse"] = "hold"
    """What happens to a call that a person has to allow: it waits, or is refused at once."""
    tokens: Annotated[int | None, Field(ge=1, le=10**15)] = None
    """The most tokens in a `window`."""
    usd: Annotated[Decimal | None, Field(gt=0, le=9_000_000, decimal_places=12)] = None
    """The most US dollars in a `window`."""
    window: Literal["day", "month"] = "month"
    """How long `tokens` and `usd` are for, in UTC."""
    rpm: Annotated[int | None, Field(ge=1, le=10**9)] = None
    """The most model calls a minute."""
    tpm: Annotated[int | None, Field(ge=1, le=10**15)] = None
    """The most tokens a minute."""
    parallel: Annotated[int | None, Field(ge=1, le=10**6)] = None
    """The most model calls at one time."""
    addresses: Annotated[tuple[Network, ...], Field(max_length=100)] = ()
    """The networks that it may come from, such as `10.0.0.0/8`; any where there are none."""
    expires: Annotated[str, Field(max_length=64), AfterValidator(_end)] = ""
    """When it ends: `90d`, `2027-01-31`; never where it is empty."""

    @property
    def metered(self) -> bool:
        """Whether something of it is counted, which takes a plugin that does."""
        counted = (self.tokens, self.usd, self.rpm, self.tpm, self.parallel)
        return any(most is not None for most in counted)

    def principal(self, name: str, client: str) -> Principal:
        """Return who comes in with the key called `name`."""
        return Principal(
            id=f"key:{name}",
            key=name,
            scopes=frozenset(self.scopes),
            bindings=tuple(Claim(channel, name) for channel in self.channels),
            agents=self.agents,
            models=self.models,
            expires=datetime.fromisoformat(self.expires) if self.expires else None,
            claims=self._claims(client),
        )

    def _claims(self, client: str) -> Mapping[str, Any]:
        budgets = [
            {"window": self.window, unit: str(most) if unit == "usd" else most}
            for unit, most in (("tokens", self.tokens), ("usd", self.usd))
            if most is not None
        ]
        rates = {"requests": self.rpm, "tokens": self.tpm, "parallel": self.parallel}
        limits = {unit: most for unit, most in rates.items() if most is not None}
        claims: dict[str, Any] = {
            "client": client,
            "modes": self.modes,
            "provider_tools": self.provider_tools,
            "client_tools": self.client_tools,
            "on_ask": self.on_ask,
        }
        return (
            claims
            | ({"budgets": budgets} if budgets else {})
            | ({"limits": limits} if limits else {})
        )

    def allows(self, address: str) -> bool:
        """Whether a client at `address` may use the key; one of no address may where all may."""
        if not self.addresses:
            return True
        try:
            client = ip_address(address)
        except ValueError:
            return False
        return any(client in ip_network(network) for network in self.addresses)


def of_maker(terms: Terms, maker: Principal, now: datetime) -> Terms:
    """Return `terms` with what its maker has, where they say nothing of their own."""
    end = end_of(terms.expires, now) if terms.expires else None
    if maker.expires is not None:
        end = maker.expires if end is None else min(end, maker.expires)
    return terms.model_copy(
        update={
            "expires": end.astimezone(UTC).isoformat(timespec="seconds") if end else "",
            "models": maker.models if terms.models is None else terms.models,
            "agents": maker.agents if terms.agents is None else terms.agents,
        }
    )


def beyond(terms: Terms, name: str, maker: Principal) -> str:
    """Say what of a key is more than its maker has; "" where nothing is."""
    return next(_beyond(terms, name, maker), "")


def _beyond(terms: Terms, name: str, maker: Principal) -> Iterator[str]:
    if maker.claims:
        # Budgets, rates, modes: each key that it made would have all of them once more.
        yield "the right to make keys, since it is limited in ways that none of them would share"
    if more := sorted(set(terms.scopes) - maker.scopes):
        yield f"the scope {more[0]!r}"
    for what, asked, own in (
        ("models", terms.models, maker.models),
        ("agents", terms.agents, maker.agents),
    ):
        if own is not None and (glob := _outside(asked, own)):
            yield f"the {what} {glob!r}"
    for channel in terms.channels:
        if not any(_covers(one, channel, name) for one in maker.bindings):
            yield f"the channel {channel!r} with the account {name!r}"


def _covers(claim: Claim, channel: str, account: str) -> bool:
    return claim.channel in ("*", channel) and claim.account in ("*", account) and claim.peer == "*"


def _outside(asked: Sequence[str] | None, held: Sequence[str]) -> str:
    """Return the first of the globs `asked` that is within none of `held`; "" where there is none.

    A glob lies within one of which `*` is the only sign where that takes its text as it is: its
    signs can only stand where the other has a `*`.
    """
    if asked is None:
        return "*"
    for glob in asked:
        plain = not set("*?[") & set(glob)
        for outer in held:
            simple = plain or not set("?[") & set(outer)
            if glob == outer or (simple and fnmatchcase(glob, outer)):
                break
        else:
            return glob
    return ""


# -- clients ---------------------------------------------------------------------

# What clients are told to come to this gateway: the lines that a new key is shown with.

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
