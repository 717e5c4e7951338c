"""The manifest of a plugin folder: ``hookgate-plugin.toml``."""

from __future__ import annotations

import tomllib
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, Self

from pydantic import AfterValidator, Field, ValidationError, model_validator
from pydantic_core import to_json

from hookgate import (
    ChannelFeatures,
    ConfigError,
    ConfigProblem,
    Flags,
    Handshake,
    HookgateError,
    Polling,
    Section,
    Webhook,
)
from hookgate.builtin_plugins.wasm.engine.limits import Limits
from hookgate.builtin_plugins.wasm.packages.flags import contradictions, flags_of
from hookgate.builtin_plugins.wasm.packages.grants import Granted, parse_grant
from hookgate.catalogue import EXAMPLE_CHARS, EXAMPLES
from hookgate.settings import dotted, locate, problems_of
from hookgate.wire import compile_schema

if TYPE_CHECKING:
    pass

MANIFEST: Final = "hookgate-plugin.toml"
"""The manifest's name in a plugin's folder."""

NAME: Final = r"^[a-z][a-z0-9_-]{0,63}$"
MODULE = r"^[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}\.wasm$"
MOST_TOOLS = 64
DESCRIPTION_CHARS = 4_000
LONGEST_CALL = 600.0
"""Seconds that an operator may let one call take at most."""


def _grant(text: str) -> str:
    parse_grant(text)
    return text


def _schema(schema: dict[str, Any]) -> dict[str, Any]:
    try:
        compile_schema(schema)
    except HookgateError as error:
        raise ValueError(f"found {str(error).partition(': ')[2]}, expected a JSON Schema") from None
    return schema


def _flags(declared: dict[str, bool]) -> dict[str, bool]:
    try:
        flags = Flags.from_mapping(declared)
    except ValueError as error:
        raise ValueError(f"found {error}") from None
    return {name: value for name, value in flags.to_json().items() if value is not None}


GrantText = Annotated[str, AfterValidator(_grant)]


class LimitsSection(Section):
    """``[limits]``: what one call may use; what is left out is hookgate's own default."""

    fuel: int | None = Field(default=None, ge=1)
    """Instructions, about one each."""
    seconds: float | None = Field(default=None, gt=0, le=LONGEST_CALL)
    """Wall time of one call, its requests included."""
    memory_bytes: int | None = Field(default=None, ge=65_536)
    """Each linear memory."""
    table_elements: int | None = Field(default=None, ge=1)
    """Each table."""
    stack_bytes: int | None = Field(default=None, ge=4_096, le=2 * 1024 * 1024)
    """The guest's own stack."""
    instances: int | None = Field(default=None, ge=1)
    """Core instances that a component is made of."""
    host_calls: int | None = Field(default=None, ge=1)
    """Calls of host functions."""
    host_bytes: int | None = Field(default=None, ge=1)
    """Bytes to and from host functions."""
    host_seconds: float | None = Field(default=None, gt=0, le=LONGEST_CALL)
    """Wall time in host functions."""
    output_bytes: int | None = Field(default=None, ge=1)
    """The answer."""

    def within(self, most: Limits) -> Limits:
        """Return the limits of a guest; what it leaves out is the default, or `most` if less.

        Raises:
            ValueError: It asks for more than `most`; says for what, and who sets it.
        """
        values: dict[str, Any] = {}
        for one in fields(Limits):
            allowed, asked = getattr(most, one.name), getattr(self, one.name, None)
            if asked is not None and asked > allowed:
                raise ValueError(
                    f"`limits.{one.name}` is {asked:,}, and at most {allowed:,} are allowed here: "
                    f"the operator sets that in `[plugin.wasm.limits] {one.name}`"
                )
            values[one.name] = min(getattr(DEFAULTS, one.name), allowed) if asked is None else asked
        return Limits(**values)


DEFAULTS: Final = Limits()


class ToolSection(Section):
    """``[[tools]]``: one tool of the guest."""

    name: str = Field(pattern=r"^[A-Za-z0-9_-]{1,64}$")
    """The name by which a model calls it, and by which the guest is told."""
    description: str = Field(min_length=1, max_length=DESCRIPTION_CHARS)
    """What it does, for the model."""
    input_schema: Annotated[dict[str, Any], AfterValidator(_schema)] = Field(
        default={"type": "object", "properties": {}, "additionalProperties": False}, alias="schema"
    )
    """The JSON Schema of its arguments, an object."""
    flags: Annotated[dict[str, bool], AfterValidator(_flags)] = Field(default_factory=dict)
    """What it declares of itself; what the grants disprove is an error."""
    timeout: float | None = Field(default=None, gt=0, le=LONGEST_CALL)
    """Seconds of one call, where they differ from `limits.seconds`."""
    category: str = Field(default="", max_length=64)
    """One word, for people and discovery."""
    tags: tuple[Annotated[str, Field(max_length=64)], ...] = Field(default=(), max_length=16)
    """Words that it is found by."""
    examples: tuple[Annotated[str, Field(max_length=EXAMPLE_CHARS)], ...] = Field(
        default=(), max_length=EXAMPLES
    )
    """Messages that ask for it, as people would write them."""
    idempotent: bool | None = None
    """Whether a call that is made again alike changes nothing more."""


class FeaturesSection(Section):
    """``[channel.features]``: what the channel can show."""

    edit: bool = False
    """Whether a message that was sent can be changed."""
    threads: bool = False
    """Whether a message can answer another one, as a thread."""
    images: bool = False
    """Whether it shows pictures."""
    max_length: int = Field(default=0, ge=0)
    """Most characters of one message; 0 for any number."""
    markdown: bool = False
    """Whether it shows Markdown."""
    choices: bool = False
    """Whether a message can offer choices, as buttons."""

    def value(self) -> ChannelFeatures:
        """Return them as the gateway knows them."""
        return ChannelFeatures(**self.model_dump())


class HandshakeSection(Section):
    """``[channel.webhook.handshake]``: how the platform makes sure by GET."""

    token: str = Field(max_length=128)
    """The parameter of the query that carries the token."""
    secret: str = Field(max_length=128)
    """The name of the secret that the token must be."""
    echo: str = Field(max_length=128)
    """The parameter whose value is the answer."""


class WebhookSection(Section):
    """``[channel.webhook]``: the platform posts to ``/webhook/NAME``."""

    verification: Literal["header", "hmac-sha256", "ed25519"]
    """How a post shows that it comes from the platform."""
    secret: str = Field(min_length=1, max_length=128)
    """The name of the secret; of the public key, for ed25519."""
    header: str = Field(min_length=1, max_length=128)
    """The header that brings secret or signature."""
    prefix: str = Field(default="", max_length=64)
    """What stands before the signature in the header."""
    encoding: Literal["hex", "base64"] = "hex"
    """How the signature is written."""
    timestamp: str = Field(default="", max_length=128)
    """The header that brings the time of the post."""
    tolerance: int = Field(default=300, ge=1, le=86_400)
    """Seconds that it may be off."""
    signed: str = Field(default="{body}", max_length=256)
    """What the signature is over."""
    max_body: int = Field(default=256 * 1024, ge=1, le=16 * 1024 * 1024)
    """The longest body, in bytes."""
    handshake: HandshakeSection | None = None
    """How the platform makes sure by GET, where it does."""

    @model_validator(mode="after")
    def _sound(self) -> Self:
        self.value()
        return self

    def value(self) -> Webhook:
        """Return it as the gateway knows it."""
        values = self.model_dump(exclude={"handshake"})
        shake = self.handshake
        return Webhook(**values, handshake=Handshake(**shake.model_dump()) if shake else None)


class PollingSection(Section):
    """``[channel.polling]``: the gateway asks the platform."""

    seconds: float = Field(default=25.0, ge=0, le=120)
    """How long one poll may wait at the platform; 0 where it answers at once."""
    pause: float = Field(default=2.0, ge=0.05, le=3_600)
    """Seconds between two polls of a platform that answers at once."""

    def value(self) -> Polling:
        """Return it as the gateway knows it."""
        return Polling(seconds=self.seconds, pause=self.pause)


class ChannelSection(Section):
    """``[channel]``: what the guest translates for."""

    features: FeaturesSection = FeaturesSection()
    """What the channel can show."""
    webhook: WebhookSection | None = None
    """The connection, where the platform posts."""
    polling: PollingSection | None = None
    """The connection, where the gateway asks."""

    @model_validator(mode="after")
    def _one_connection(self) -> Self:
        if (self.webhook is None) == (self.polling is None):
            found = "neither" if self.webhook is None else "both"
            raise ValueError(
                f"found {found}, expected either [channel.webhook] or [channel.polling]"
            )
        return self


class Manifest(Section):
    """All that a plugin's folder says of itself."""

    name: str = Field(pattern=NAME)
    """The plugin's name, unique in a gateway: lower-case letters, digits, - and _."""
    version: str = Field(min_length=1, max_length=64)
    """Its version."""
    kind: Literal["tool", "channel"]
    """What it brings: tools, or one channel."""
    module: str = Field(pattern=MODULE)
    """The module's file in this folder."""
    digest: str | None = Field(default=None, pattern=r"^[0-9a-f]{64}$")
    """SHA-256 of the module, in hex; one of another digest is refused."""
    description: str = Field(default="", max_length=DESCRIPTION_CHARS)
    """What it is, for people."""
    grants: tuple[GrantText, ...] = ()
    """All that it may do beside computing."""
    capabilities: tuple[GrantText, ...] = ()
    """Another word for `grants`."""
    limits: LimitsSection = LimitsSection()
    """What one call may use."""
    tools: tuple[ToolSection, ...] = Field(default=(), max_length=MOST_TOOLS)
    """The tools, of a plugin of kind `tool`."""
    channel: ChannelSection | None = None
    """The channel, of a plugin of kind `channel`."""

    @property
    def granted(self) -> Granted:
        """The grants, read."""
        return Granted.parse(self.grants or self.capabilities)

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.grants and self.capabilities:
            raise ValueError(
                "capabilities is given beside `grants`, expected one of the two: they mean the same"
            )
        granted = self.granted
        if self.kind == "tool":
            self._check_tools(granted)
        else:
            self._check_channel(granted)
        return self

    def _check_tools(self, granted: Granted) -> None:
        if not self.tools or self.channel is not None:
            found = "none" if not self.tools else "a [channel] beside them"
            raise ValueError(f"tools is {found}, expected [[tools]] alone, of the kind `tool`")
        names = [one.name for one in self.tools]
        if len(set(names)) != len(names):
            raise ValueError("tools is two of one name, expected each name once")
        for number, one in enumerate(self.tools):
            for wrong in contradictions(granted, one.flags):
                raise ValueError(
                    f"tools[{number}].flags is {wrong}, expected what the grants prove, or nothing"
                )

    def _check_channel(self, granted: Granted) -> None:
        if self.channel is None or self.tools:
            found = "missing" if self.channel is None else "there beside [[tools]]"
            raise ValueError(f"channel is {found}, expected [channel] alone, of the kind `channel`")
        if granted.folders:
            raise ValueError(
                f"grants is {granted.folders[0].text!r}, expected no fs-read: for a channel: what "
                "strangers write to it must not lead to files"
            )
        if not granted.http:
            raise ValueError(
                "grants is without http:, expected where the host may send what the channel says"
            )

    def flags_of(self, tool: ToolSection) -> Flags:
        """Return the flags of one of its tools."""
        return flags_of(self.granted, tool.flags)


def parse_manifest(text: str, file: str) -> Manifest:
    """Read a manifest.

    Args:
        text: What the file says.
        file: The file, for errors.

    Raises:
        ConfigError: All that is wrong, each with its line and, for a key, the nearest known one.
    """
    try:
        data = tomllib.loads(text)
        lines = {dotted(path): line for path, line in locate(text).items()}
    except ValueError as error:
        # Beside wrong syntax: numbers of thousands of digits.
        raise ConfigError([_problem(file, "", str(error)[:200], "TOML")]) from None
    except RecursionError:
        raise ConfigError([_problem(file, "", "values nested too deep", "a manifest")]) from None
    try:
        raw = to_json(data, inf_nan_mode="constants")
        return Manifest.model_validate_json(raw, strict=True)
    except ValidationError as error:
        problems = problems_of(error, Manifest, data)
    except ValueError as error:
        # What TOML can hold and JSON cannot.
        problems = [_problem(file, "", str(error)[:200], "a manifest")]
    raise ConfigError([_placed(one, file, lines) for one in problems])


def _problem(file: str, key: str, found: str, expected: str) -> ConfigProblem:
    return ConfigProblem(file=file, line=None, key=key, found=found, expected=expected)


def _placed(problem: ConfigProblem, file: str, lines: dict[str, int]) -> ConfigProblem:
    """Return the problem with its file, and the line of its key or of what holds it."""
    expected = problem.expected.replace("the settings:", f"{MANIFEST}:")
    key = problem.key
    while key and key not in lines:
        key = key.rpartition("[" if key.endswith("]") else ".")[0]
    return replace(problem, file=file, line=lines.get(key), expected=expected)
