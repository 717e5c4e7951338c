"""The settings of a gateway, typed. `core.settings.file` reads them from TOML.

Every key has a default: a gateway without a settings file runs on loopback with a
demo agent. A plugin's own section, ``[plugin.NAME]``, is typed by the plugin.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, AwareDatetime, Field, PrivateAttr, SecretStr, model_validator

from hookgate.core.domain.descriptors import identity
from hookgate.core.domain.models import ModelRef
from hookgate.core.settings.documented import Documented
from hookgate.core.settings.layers import SettingPlace
from hookgate.core.settings.paths import FROM_HOME, IS_TEXT, PathBases, users_home


class Section(Documented):
    """Base of every section: unknown keys are errors, values do not change."""

    @classmethod
    def by_default(cls) -> Self:
        """Return the section of whoever sets nothing in it.

        Nothing is checked, so what checks values need not be made. That the defaults which come
        with hookgate hold is checked by a test.
        """
        return cls.model_construct()


HomePath = Annotated[Path, Field(json_schema_extra={FROM_HOME: True})]
"""A path that begins at `home` where it is relative; a plain `Path` of a section begins at the
folder of the settings file."""

PathText = Annotated[str, Field(json_schema_extra={"format": "path", IS_TEXT: True})]
"""Text that is a path, and is made whole as a `Path` is; "" stays empty."""


def _model_ref(text: str) -> str:
    ModelRef.parse(text)
    return text


def _origin(text: str) -> str:
    if not re.fullmatch(r"https?://[A-Za-z0-9.\-\[\]:]+", text):
        raise ValueError(
            "expected scheme://host[:port] without a path, such as https://app.example"
        )
    return text.lower()


def _distinct(named: dict[str, Any]) -> dict[str, Any]:
    known: dict[str, str] = {}
    for name in named:
        if not name.strip():
            raise ValueError(f"expected names of some letters, and found {name!r}")
        if (other := known.setdefault(identity(name), name)) != name:
            raise ValueError(
                f"expected names that differ by more than case or width, and found {name!r} "
                f"beside {other!r}"
            )
    return named


ModelName = Annotated[str, AfterValidator(_model_ref)]
OriginName = Annotated[str, AfterValidator(_origin)]


class TokenSettings(Section):
    """One access token: ``[gateway.tokens.NAME]``."""

    digest: str | None = Field(default=None, pattern=r"^[0-9a-f]{64}$")
    """SHA-256 of the token, in hex. `hookgate token new` makes both."""
    file: Path | None = None
    """A file, mode 0600 or a mounted secret, that holds the token itself."""
    scopes: tuple[Literal["chat", "approve", "operate", "read"], ...] = ("chat", "read")
    """What a client with this token may do."""
    channels: tuple[str, ...] = ("*",)
    """The channels that it may claim; `*` for any."""
    accounts: tuple[str, ...] = ("*",)
    """The accounts that it may claim; `*` for any."""
    peers: tuple[str, ...] = ("*",)
    """The peers that it may claim; `*` for any."""
    agents: tuple[str, ...] | None = None
    """Globs of the agents that it may speak to. Without it: all."""
    models: tuple[str, ...] | None = None
    """Globs of the models that may answer it, as `provider/model`. Without it: all."""
    expires: AwareDatetime | None = None
    """When it ends, with its zone, such as `2027-01-31T00:00:00Z`. Without it: never."""

    @model_validator(mode="after")
    def _one_source(self) -> TokenSettings:
        if (self.digest is None) == (self.file is None):
            raise ValueError("expected either `digest` or `file`, and not both")
        return self


class LimitSettings(Section):
    """``[gateway.limits]``: what one client may cost the gateway."""

    frame_bytes: int = Field(default=1_048_576, ge=1024, le=64 * 1024 * 1024)
    """The longest frame or request body, in bytes."""
    queue_frames: int = Field(default=256, ge=8, le=65_536)
    """Frames that may wait for a slow client before it is closed with 1013."""
    connections: int = Field(default=12_000, ge=1)
    """Sockets at once."""
    ready_streams: int = Field(default=10_000, ge=1)
    """Sockets, streams and requests at once beyond which `/ready` is 503, so that load balancers
    send others elsewhere before `connections` refuses them."""
    turns_per_connection: int = Field(default=32, ge=1, le=10_000)
    """Turns that one socket may have running or waiting."""
    attempts_per_minute: int = Field(default=20, ge=1)
    """Failed authentications from one address in a minute."""
    unverified_seconds: float = Field(default=10.0, gt=0, le=600)
    """How long a body may take that has to be read to know its sender, such as a webhook's."""
    unverified_bytes: int = Field(default=16_777_216, ge=65_536)
    """Bytes of all such bodies that are held at once; beyond, the oldest is answered with 429."""
    drain_seconds: float = Field(default=25.0, ge=0, le=600)
    """How long a stop waits for running turns."""
    drain_wait_seconds: float = Field(default=5.0, ge=0, le=600)
    """How long SIGTERM lets the gateway serve on, `/ready` saying that it is not and answers that
    their connection ends, until load balancers have noticed. Ctrl-C does not wait."""
    heartbeat_seconds: float = Field(default=30.0, ge=1, le=600)
    """Seconds between WebSocket pings."""


class GatewaySettings(Section):
    """``[gateway]``: where it listens, and who may come in."""

    host: str = "127.0.0.1"
    """The address to listen on. One beyond loopback needs at least one token."""
    port: int = Field(default=7200, ge=0, le=65_535)
    """The port; 0 takes a free one."""
    socket: Path | None = None
    """A Unix socket to listen on as well; a relative path starts at `home`. Who connects there
    counts as one on loopback."""
    socket_mode: str = Field(default="0600", pattern=r"^0?[0-7]{3}$")
    """Who may connect to it: those who may write. `0660` lets a proxy of its group in."""
    allowed_hosts: tuple[str, ...] = ()
    """Names that may stand in a request's Host header, beside loopback's own."""
    allowed_origins: tuple[OriginName, ...] = ()
    """Origins that browsers may come from, beside the gateway's own. No `*`."""
    trusted_proxies: tuple[str, ...] = ()
    """Addresses whose forwarded headers are believed. Needs tokens."""
    proxy_protocol: bool = False
    """Whether these proxies may begin a connection with a header of the PROXY protocol, version 2,
    which says who the client is. Needs `trusted_proxies`."""
    believe_client_flags: tuple[str, ...] = ()
    """Principals whose word is taken on what the tools do that they bring with a message: the
    ids are `loopback`, `token:NAME`, or `*` for all. Of others only what makes a tool stricter
    is believed: that it does something, never that it does not."""
    on_disconnect: Literal["cancel", "finish"] = "cancel"
    """What becomes of a client's running turns when it goes away."""
    tokens: Annotated[dict[str, TokenSettings], AfterValidator(_distinct)] = Field(
        default_factory=dict
    )
    """Access tokens by name."""
    limits: LimitSettings = LimitSettings.by_default()


class AgentSettings(Section):
    """``[agents.NAME]``: an assistant."""

    provider: str | None = None
    """The provider of `model`, where `model` does not name it itself."""
    model: str = Field(min_length=1)
    """The model: `provider/model`, or the model's name where `provider` is given."""
    fallback: tuple[ModelName, ...] = ()
    """Models to try, in order, when the first one fails before its first token."""
    soul: str = ""
    """Standing instructions, Markdown."""
    soul_file: Path | None = None
    """A file that holds them instead. It is read again when it changes."""
    tools: tuple[str, ...] | None = None
    """Globs of the tools that it may call; all of them where this is not set."""
    max_output_tokens: int = Field(default=1024, ge=1, le=1_000_000)
    """The most tokens of one answer."""
    temperature: float | None = Field(default=None, ge=0, le=2)
    """The sampling temperature."""
    options: dict[str, Any] = Field(default_factory=dict)
    """Parameters that go to the provider unchanged."""

    @model_validator(mode="after")
    def _names_a_provider(self) -> AgentSettings:
        if self.provider is None:
            ModelRef.parse(self.model)
        if self.soul and self.soul_file:
            raise ValueError("expected either `soul` or `soul_file`, and not both")
        return self

    @property
    def models(self) -> tuple[ModelRef, ...]:
        """The models to try, in order."""
        first = (
            ModelRef.parse(self.model)
            if self.provider is None
            else ModelRef(self.provider, self.model)
        )
        return (first, *(ModelRef.parse(name) for name in self.fallback))


class BindingSettings(Section):
    """``[[bindings]]``: messages that match go to `agent`."""

    agent: str
    """The agent's name."""
    channel: str | None = None
    """The channel that a message comes by, such as `web`."""
    account: str | None = None
    """The account on that channel."""
    peer: str | None = None
    """Who wrote it."""
    guild: str | None = None
    """The guild, server or workspace that it was written in."""
    team: str | None = None
    """The team that it was written in."""


class ContextSettings(Section):
    """``[context]``: what a model gets to read."""

    budget_tokens: int = Field(default=5000, ge=200, le=2_000_000)
    """The hard budget of everything that the gateway puts in front of a model."""
    history_turns: int = Field(default=5, ge=0, le=1000)
    """Turns of the conversation that are added, at most. With one more than that, or with more than
    there is room for, it goes on with the newer half of them, and grows again: so a request begins
    as the one before it did, which a provider's cache knows."""
    result_tokens: int = Field(default=2000, ge=50, le=1_000_000)
    """The longest tool result; a longer one is cut, with a marker."""
    result_media_bytes: int = Field(default=5_000_000, ge=0, le=100_000_000)
    """Bytes of pictures, sound and documents in one tool result; what is beyond them is left
    out, with a note. The default is the largest picture that Anthropic takes."""
    floors: dict[str, int] = Field(
        default_factory=lambda: {
            "soul": 800,
            "history": 1200,
            "recall": 600,
            "cards": 400,
            "tiers": 400,
        }
    )
    """Tokens that each kind of block gets before the rest is shared by priority."""
    caps: dict[str, int] = Field(default_factory=dict)
    """The most tokens of each kind of block; one of such a kind goes with its turn."""
    unsanitized: Literal["withhold", "allow"] = "withhold"
    """What becomes of text of others while no plugin sanitizes it: no model sees it, or as it
    is."""


class TurnSettings(Section):
    """``[turn]``: how a turn runs."""

    max_iterations: int = Field(default=10, ge=1, le=100)
    """Rounds of tool calls at most."""
    deadline_seconds: float = Field(default=600.0, gt=0, le=604_800)
    """The whole turn's limit; what it waits for people counts."""
    lane_queue: int = Field(default=16, ge=0, le=10_000)
    """Messages that may wait for one session."""
    max_depth: int = Field(default=3, ge=0, le=16)
    """How deep turns may be nested in turns, and calls in calls."""
    default_verdict: Literal["deny", "ask", "allow"] = "deny"
    """What becomes of a tool call on which every plugin abstains."""
    answerers: tuple[str, ...] = ("policy",)
    """Names of the plugins whose `resolve_ask` is called, so which of them may answer a question
    in a person's place; whoever else implements it is not asked."""
    sandbox: Literal["optional", "required"] = "optional"
    """`required` refuses every tool and channel that does not run in WASM."""
    max_tool_calls: int = Field(default=64, ge=1, le=1000)
    """Tool calls of one message that are judged and run; every call beyond gets an error."""
    max_inner_calls: int = Field(default=64, ge=0, le=1000)
    """Tool calls that tools, providers and hooks make within one turn; none beyond begins."""
    tool_concurrency: int = Field(default=8, ge=1, le=256)
    """Tool calls of one message that run side by side."""
    tool_selection: Literal["auto", "all", "discovered"] = "auto"
    """Whether a model is offered all tools, or those that discovery chose; `auto` offers all
    while their schemas take at most `whole_tool_tokens`, and chosen ones beyond."""
    whole_tool_tokens: int = Field(default=2000, ge=0, le=1_000_000)
    """Tokens of all tools' schemas up to which `auto` offers every tool."""
    failure_mode: Literal["fail_open", "fail_closed"] = "fail_open"
    """Whether a turn runs on when discovery fails, or a tool that it has called; with
    `fail_closed` it ends with that error."""


class PluginsSettings(Section):
    """``[plugins]``: which plugins run."""

    disable: tuple[str, ...] = ()
    """Names of plugins that do not run."""
    replace: dict[str, str] = Field(default_factory=dict)
    """Builtin name -> name of the installed plugin that takes its place."""
    allow: tuple[str, ...] | None = None
    """Distributions that may bring plugins, such as `acme-policy==1.2`; checked before import."""
    required: tuple[str, ...] = ()
    """Third-party plugins without which the gateway does not start."""
    entry_points: bool = True
    """Whether installed third-party plugins are looked for."""


class HookSettings(Section):
    """``[hooks.NAME]``: a tighter contract for one hook."""

    limit: float | None = Field(default=None, gt=0)
    """Seconds for which one implementation may be suspended; at most the hook's own limit."""
    required: Literal[True] | None = None
    """`true` makes a failure raise where it would be skipped."""


class LogSettings(Section):
    """``[log]``: what is logged, and how it looks."""

    level: Literal["debug", "info", "warning", "error"] = "info"
    """The least urgent lines that are written; `debug` brings those of the libraries too."""
    format: Literal["auto", "console", "json"] = "auto"
    """`auto` is console on a terminal and JSON elsewhere."""
    requests: bool = False
    """Whether each request is logged: method, path, status, milliseconds and principal; no
    query, no parameters, no body."""


@dataclass(frozen=True, slots=True)
class _Places:
    """Where values came from. It does not count when settings are compared."""

    by_key: Mapping[str, SettingPlace] | None = field(default=None, compare=False)


class Settings(Section):
    """All settings of one gateway."""

    home: Path = Field(default_factory=lambda: users_home() / ".hookgate")
    """The folder for the store, keys and runtime files."""
    gateway: GatewaySettings = GatewaySettings.by_default()
    agents: Annotated[dict[str, AgentSettings], AfterValidator(_distinct)] = Field(
        default_factory=dict
    )
    """Agents by name. Without any, there is one called `demo` on the demo provider."""
    default_agent: str | None = None
    """The agent for messages that no binding matches."""
    bindings: tuple[BindingSettings, ...] = ()
    context: ContextSettings = ContextSettings.by_default()
    turn: TurnSettings = TurnSettings.by_default()
    plugins: PluginsSettings = PluginsSettings.by_default()
    hooks: dict[str, HookSettings] = Field(default_factory=dict)
    plugin: dict[str, dict[str, Any]] = Field(default_factory=dict)
    """One section for each plugin, typed by the plugin."""
    secrets: dict[str, SecretStr] = Field(default_factory=dict)
    """Secrets by name; an environment variable or a key file comes before."""
    log: LogSettings = LogSettings.by_default()
    _bases: PathBases = PrivateAttr(default_factory=PathBases)
    _places: _Places = PrivateAttr(default_factory=_Places)

    @property
    def folder(self) -> Path:
        """Where relative paths begin: the folder of the settings file, or `home` without one."""
        home = self.home.expanduser().absolute()
        return home if self._bases.folder is None else self._bases.folder

    @property
    def bases(self) -> PathBases:
        """Where relative paths begin, with all that there is to know."""
        return self._bases

    @property
    def places(self) -> Mapping[str, SettingPlace] | None:
        """Where each value came from, by key as in ``bindings.0.agent``; defaults have none.

        None where no file was looked for: a program has made these settings.
        """
        return self._places.by_key

    def placed(
        self, bases: PathBases, places: Mapping[str, SettingPlace] | None = None
    ) -> Settings:
        """Return these settings, with their relative paths beginning at `bases`.

        Args:
            bases: Where relative paths begin.
            places: Where each value came from.
        """
        made = self.model_copy()
        made._bases = bases
        made._places = _Places(places)
        return made

    @model_validator(mode="after")
    def _agents_exist(self) -> Settings:
        if not self.agents:
            return self
        for number, binding in enumerate(self.bindings):
            if binding.agent not in self.agents:
                raise ValueError(
                    f"bindings[{number}].agent is {binding.agent!r}: "
                    f"expected one of {', '.join(sorted(self.agents))}"
                )
        if self.default_agent is not None and self.default_agent not in self.agents:
            raise ValueError(
                f"default_agent is {self.default_agent!r}: "
                f"expected one of {', '.join(sorted(self.agents))}"
            )
        return self
