"""The settings of the `providers` plugin: ``[plugin.providers.NAME]``."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import AfterValidator, ConfigDict, Field, SecretStr, model_validator

from hookgate import ModelInfo, Section
from hookgate.builtin_plugins.providers.wire.template import ThinkTags
from hookgate.kit.url_grants import service_url

ProviderKind: TypeAlias = Literal["anthropic", "openai", "demo"]

DEFAULTS: dict[str, tuple[str, str]] = {
    "anthropic": ("https://api.anthropic.com", "ANTHROPIC_API_KEY"),
    "openai": ("https://api.openai.com/v1", "OPENAI_API_KEY"),
}
"""Kind -> its maker's base URL, and the environment variable that its clients read."""

FIXED_HEADERS = frozenset(
    ("authorization", "x-api-key", "host", "content-length", "content-type", "transfer-encoding")
)
_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")  # RFC 9110, section 5.6.2: token
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")


def _base_url(text: str) -> str:
    example, secret = "http://127.0.0.1:11434/v1", "keys go into `api_key_file`"
    return str(service_url(text, example=example, secret=secret)).rstrip("/")


def _headers(headers: dict[str, str]) -> dict[str, str]:
    for name, value in headers.items():
        if not _HEADER_NAME.fullmatch(name):
            raise ValueError(f"{name!r} is no header name")
        if name.lower() in FIXED_HEADERS:
            raise ValueError(f"{name!r} is set by the provider; keys go into `api_key_file`")
        if not value.isascii() or not value.isprintable():
            raise ValueError(f"the value of {name!r} is not printable ASCII")
    return headers


class ModelSettings(Section):
    """``[plugin.providers.NAME.models.MODEL]``: what is known of one model."""

    context_tokens: int | None = Field(default=None, ge=1)
    """The longest input, in tokens."""
    max_output_tokens: int | None = Field(default=None, ge=1)
    """The longest output, in tokens."""
    tools: bool = True
    """Whether it can call tools."""
    images: bool | None = None
    """Whether it reads images; where this is not set, it is taken for one that does. What a
    model does not read is not sent to it: a note in its place names it."""
    audio: bool | None = None
    """Whether it hears audio; where this is not set, it does not."""
    documents: bool | None = None
    """Whether it reads documents such as PDF; where this is not set, models of kind `anthropic`
    do, and no others."""
    think_tags: ThinkTags = "off"
    """`on` reads what stands between `<think>` and `</think>` in its text as reasoning; `open`
    is for a model whose answers begin within it, without the first tag."""
    tool_call_tags: bool = False
    """Whether JSON between `<tool_call>` and `</tool_call>` in its text is a tool call."""

    def info(self, name: str, kind: ProviderKind) -> ModelInfo:
        """Return what plugins get to know of the model called `name` of a provider of `kind`."""
        said = self.model_dump(exclude={"think_tags", "tool_call_tags"}, exclude_none=True)
        return ModelInfo(name=name, **{"images": True, "documents": kind == "anthropic", **said})


class ProviderSettings(Section):
    """``[plugin.providers.NAME]``: one provider of models."""

    kind: ProviderKind
    """The protocol: `anthropic` (Messages), `openai` (Chat Completions, and every server
    that speaks it), or `demo`. A provider that is called like a kind is of that kind."""
    base_url: Annotated[str, AfterValidator(_base_url)] | None = None
    """Where it is; the maker's own address where this is not set."""
    api_key_env: str | None = Field(default=None, pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")
    """The environment variable that holds the key. It comes first. Where `base_url` is not
    set, it is the one that the maker's own clients read."""
    api_key_file: Path | None = None
    """A file, mode 0600, that holds the key. It comes second."""
    api_key: SecretStr | None = None
    """The key itself. It comes third."""
    models: dict[str, ModelSettings] = Field(default_factory=dict)
    """What is known of its models; names that are not listed are accepted too."""
    connect_seconds: float = Field(default=10.0, gt=0, le=3600)
    """The limit for a connection."""
    first_byte_seconds: float = Field(default=60.0, gt=0, le=3600)
    """The limit from the request to the answer's first event."""
    idle_seconds: float = Field(default=60.0, gt=0, le=3600)
    """The longest silence within an answer; keep-alive comments break it."""
    total_seconds: float = Field(default=600.0, gt=0, le=86_400)
    """The limit for the whole answer."""
    api: Literal["chat", "responses"] = "chat"
    """Which of its protocols is spoken to a server of kind `openai`: Chat Completions, or
    Responses, in which reasoning models keep what they thought from call to call."""
    output_limit: Literal["max_tokens", "max_completion_tokens"] | None = None
    """The parameter that limits the answer, for kind `openai`. Where it is not set, OpenAI's
    own address gets `max_completion_tokens`, which its newer models demand, and every other
    one `max_tokens`, which most servers know."""
    headers: Annotated[dict[str, str], AfterValidator(_headers)] = Field(default_factory=dict)
    """Headers to send with each request."""

    @model_validator(mode="after")
    def _api_of_openai(self) -> ProviderSettings:
        if self.api != "chat" and self.kind != "openai":
            raise ValueError(f"found `api` with kind `{self.kind}`, expected kind `openai`")
        if self.api == "responses" and self.output_limit is not None:
            raise ValueError(
                "found `output_limit` with the Responses API, which has one name for its limit"
            )
        return self

    @model_validator(mode="after")
    def _demo_needs_nothing(self) -> ProviderSettings:
        if self.kind == "demo" and (
            self.base_url or self.api_key_env or self.api_key_file or self.api_key
        ):
            raise ValueError(
                "found `base_url` or a key with kind `demo`, expected neither: it is offline"
            )
        return self


class ProvidersSettings(Section):
    """``[plugin.providers]``: a table of named providers."""

    model_config = ConfigDict(extra="allow")

    __pydantic_extra__: dict[str, ProviderSettings]

    @model_validator(mode="before")
    @classmethod
    def _kind_by_name(cls, data: Any) -> Any:
        """Let ``[plugin.providers.openai]`` go without ``kind = "openai"``."""
        if not isinstance(data, dict):
            return data
        return {
            name: {"kind": name, **one}
            if name in ("anthropic", "openai", "demo") and isinstance(one, dict)
            else one
            for name, one in data.items()
        }

    @model_validator(mode="after")
    def _names(self) -> ProvidersSettings:
        for name in self.named:
            if not _NAME.fullmatch(name):
                raise ValueError(
                    f"found provider {name!r}: expected letters, digits, `.`, `_` and `-`, "
                    "since its name stands before the slash in `provider/model`"
                )
        return self

    @property
    def named(self) -> dict[str, ProviderSettings]:
        """The providers by name."""
        return dict(self.__pydantic_extra__ or {})
