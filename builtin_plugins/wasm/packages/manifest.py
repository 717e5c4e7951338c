"""The manifest of a plugin folder: ``hookgate-plugin.toml``."""

from __future__ import annotations

from dataclasses import fields
from typing import Annotated, Any, Final, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from hookgate import ChannelFeatures, ConfigError, Flags, Polling, Section, Webhook
from hookgate.builtin_plugins.wasm.engine.limits import Limits
from hookgate.builtin_plugins.wasm.packages.grants import (
    Granted,
    contradictions,
    flags_of,
    parse_grant,
)
from hookgate.builtin_plugins.wasm.settings import CallLimits
from hookgate.catalogue import EXAMPLE_CHARS, EXAMPLES
from hookgate.kit.content.documents import ArgumentsSchema, parse_toml, read
from hookgate.kit.content.problems import ContentError

NAME: Final = r"^[a-z][a-z0-9_-]{0,63}$"
MODULE = r"^[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}\.wasm$"
MOST_TOOLS = 64
DESCRIPTION_CHARS = 4_000
LONGEST_CALL = 600.0
"""Seconds that an operator may let one call take at most."""
LONGEST_POLL = 120.0
MOST_TOLERANCE = 86_400
MOST_BODY = 16 * 1024 * 1024


def _grant(text: str) -> str:
    parse_grant(text)
    return text


def _flags(declared: dict[str, bool]) -> dict[str, bool]:
    try:
        flags = Flags.from_mapping(declared)
    except ValueError as error:
        raise ValueError(f"found {error}") from None
    return {name: value for name, value in flags.to_json().items() if value is not None}


GrantText = Annotated[str, AfterValidator(_grant)]


def within(asked: CallLimits, most: Limits) -> Limits:
    """Return the limits of a guest; what it leaves out is the default, or `most` if less.

    Raises:
        ValueError: It asks for more than `most`; says for what, and who sets it.
    """
    values: dict[str, Any] = {}
    for one in fields(Limits):
        allowed = getattr(most, one.name)
        wanted = min(one.default, allowed)
        if one.name in asked.model_fields_set:
            wanted = getattr(asked, one.name)
        if wanted > allowed:
            raise ValueError(
                f"`limits.{one.name}` is {wanted:,}, and at most {allowed:,} are allowed here: "
                f"the operator sets that in `[plugin.wasm.limits] {one.name}`"
            )
        values[one.name] = wanted
    return Limits(**values)


class ToolSection(Section):
    """``[[tools]]``: one tool of the guest."""

    name: str = Field(pattern=r"^[A-Za-z0-9_-]{1,64}$")
    """The name by which a model calls it, and by which the guest is told."""
    description: str = Field(min_length=1, max_length=DESCRIPTION_CHARS)
    """What it does, for the model."""
    input_schema: ArgumentsSchema = Field(
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


def _features(features: ChannelFeatures) -> ChannelFeatures:
    if features.max_length < 0:
        raise ValueError(f"max_length is {features.max_length}, expected 0 or more")
    return features


def _webhook(webhook: Webhook) -> Webhook:
    if webhook.tolerance > MOST_TOLERANCE:
        raise ValueError(f"tolerance is {webhook.tolerance}, expected at most {MOST_TOLERANCE}")
    if webhook.max_body > MOST_BODY:
        raise ValueError(f"max_body is {webhook.max_body}, expected at most {MOST_BODY}")
    return webhook


def _polling(polling: Polling) -> Polling:
    if polling.seconds > LONGEST_POLL:
        raise ValueError(f"seconds is {polling.seconds}, expected at most {LONGEST_POLL:g}")
    return polling


class ChannelSection(Section):
    """``[channel]``: what the guest translates for."""

    features: Annotated[ChannelFeatures, AfterValidator(_features)] = ChannelFeatures()
    """What the channel can show."""
    webhook: Annotated[Webhook, AfterValidator(_webhook)] | None = None
    """The connection, where the platform posts."""
    polling: Annotated[Polling, AfterValidator(_polling)] | None = None
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
    limits: CallLimits = CallLimits()
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
        reading = read(Manifest, parse_toml(text, file))
    except ContentError as error:
        raise ConfigError([error.problem]) from None
    if reading.one is None:
        raise ConfigError(reading.problems)
    return reading.one
