"""From settings to providers: keys found, grants made, protocols chosen."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from ipaddress import ip_address

from hookgate import ConfigError, Egress, ModelInfo, PluginError, Provider, ProviderInfo, Secrets
from hookgate.builtin_plugins.providers.anthropic import AnthropicWire
from hookgate.builtin_plugins.providers.demo import DemoProvider
from hookgate.builtin_plugins.providers.openai import OpenAIWire
from hookgate.builtin_plugins.providers.remote import RemoteProvider
from hookgate.builtin_plugins.providers.responses import ResponsesWire
from hookgate.builtin_plugins.providers.settings import (
    DEFAULTS,
    ModelSettings,
    ProviderSettings,
    ProvidersSettings,
)
from hookgate.builtin_plugins.providers.wire.protocol import Wire
from hookgate.kit.modules import httpx

PLACEHOLDERS = frozenset(
    (
        "dummy",
        "empty",
        "llama.cpp",
        "lm-studio",
        "lmstudio",
        "no-key",
        "no-key-required",
        "none",
        "not-needed",
        "not-required",
        "null",
        "ollama",
        "sk-no-key-required",
        "unused",
        "vllm",
    )
)
"""What is written in the place of a key that a server does not need, as Ollama's pages say."""


def is_placeholder(key: str) -> bool:
    """Whether a key is a word that opens nothing: masked, it would go missing from every text."""
    return key.casefold() in PLACEHOLDERS


def key_variable(settings: ProviderSettings) -> str | None:
    """Return the environment variable of a provider's key, or None where it has none.

    The maker's own variable serves the maker's own address alone: its key must not go to
    another server because a setting forgot to name one.
    """
    if settings.api_key_env is not None:
        return settings.api_key_env
    if settings.kind in DEFAULTS and settings.base_url in (None, DEFAULTS[settings.kind][0]):
        return DEFAULTS[settings.kind][1]
    return None


def find_key(
    settings: ProviderSettings, secrets: Secrets, environ: Mapping[str, str] = os.environ
) -> str | None:
    """Return a provider's key: of the environment, of its file, or of the settings.

    Where the provider's own section has none, the gateway's secrets are asked for the name
    of its variable. Reads files.

    Raises:
        ConfigError: The key file is not safe to use; the text names the command that mends it.
    """
    variable = key_variable(settings)
    key = environ.get(variable, "").strip() if variable else ""
    if not key and settings.api_key_file is not None:
        key = secrets.read(settings.api_key_file) or ""
    if not key and settings.api_key is not None:
        key = settings.api_key.get_secret_value().strip()
    if not key and variable:
        key = secrets.get(variable) or secrets.get(variable.lower()) or ""
    if not key:
        return None
    if not is_placeholder(key):
        secrets.register(key)
    return key


def missing_key(name: str, settings: ProviderSettings, secrets: Secrets) -> str:
    """Say where `find_key` looks for a provider's key, as what to do; "" where it needs none."""
    variable = key_variable(settings)
    if variable is None:
        return ""
    _, *places = secrets.how_to_set(variable.lower())
    if settings.api_key_file is not None:
        places.append(f"write it to {settings.api_key_file}, which is empty")
    elif name not in DEFAULTS:
        places.append(f"name a file that holds it: `api_key_file` in [plugin.providers.{name}]")
    return ", or ".join([f"set {variable}", *places])


def models_of(settings: ProviderSettings) -> tuple[ModelInfo, ...]:
    """Return the models that the settings name, and ``*`` for any other."""
    kind = settings.kind
    named = {"*": ModelSettings().info("*", kind)}
    named |= {model: it.info(model, kind) for model, it in settings.models.items()}
    return (*(info for model, info in named.items() if model != "*"), named["*"])


def describe_provider(name: str, settings: ProviderSettings, secrets: Secrets) -> ProviderInfo:
    """Say what is known of the provider called `name`. Reads files."""
    if settings.kind == "demo":
        return ProviderInfo(name=name, models=tuple(_demo(name, settings).models()))
    models, local = models_of(settings), is_local(settings.base_url)
    try:
        key = find_key(settings, secrets)
    except ConfigError as error:
        (problem,) = error.problems
        missing = f"a key file that cannot be used: {problem.file} ({problem.found})"
        action = problem.expected
    else:
        action = "" if key else missing_key(name, settings, secrets)
        missing = f"no key for {name}" if action else ""
    return ProviderInfo(name=name, models=models, missing=missing, action=action, local=local)


def is_local(base_url: str | None) -> bool:
    """Whether a server is on this machine or in its own network, as far as its address says."""
    host = httpx.URL(base_url).host if base_url else ""
    try:
        address = ip_address(host)
    except ValueError:
        return host == "localhost" or host.endswith((".localhost", ".local", ".internal"))
    return address.is_loopback or address.is_private or address.is_link_local


def _demo(name: str, settings: ProviderSettings) -> DemoProvider:
    return DemoProvider(name, [it.info(one, "demo") for one, it in settings.models.items()])


def make_provider(
    name: str,
    settings: ProviderSettings,
    key: str | None,
    egress: Egress | None,
    secrets: Secrets,
    complain: Callable[[str], None],
) -> Provider:
    """Return the provider called `name`; only one of kind ``demo`` does without `egress`.

    Raises:
        PluginError: Its address cannot be granted, or its key cannot stand in a header.
    """
    if settings.kind == "demo":
        return _demo(name, settings)
    if egress is None:
        raise PluginError("providers", f"provider {name!r} needs a plugin that provides `egress`")
    if key is not None and not (key.isascii() and key.isprintable()):
        raise PluginError(
            "providers",
            f"provider {name!r}: its API key holds characters that no header can carry: "
            "expected printable ASCII on one line",
        )
    wire = _wire(name, settings, key)
    action = "" if key else missing_key(name, settings, secrets)
    try:
        client = egress.client(
            [url for url in (wire.url, wire.models_url, wire.count_url, wire.embeddings_url) if url]
            + ([f"{wire.kept_url}*"] if wire.kept_url else []),
            name=f"provider {name}",
            timeout=httpx.Timeout(
                # The first event has a limit of its own, and then the silence in between.
                max(settings.first_byte_seconds, settings.idle_seconds),
                connect=settings.connect_seconds,
            ),
        )
    except ValueError as error:
        raise PluginError("providers", f"provider {name!r}: `base_url`: {error}") from None

    def masked(text: str) -> str:
        if key is None or is_placeholder(key):
            return secrets.redact(text)
        # The gateway's redaction leaves very short secrets alone; here one is meant.
        return secrets.redact(text.replace(key, "[redacted]"))

    return RemoteProvider(
        name,
        settings,
        wire,
        client,
        models=models_of(settings),
        redact=masked,
        complain=complain,
        missing_key=f"no key for {name}: {action}" if action else "",
        keyless=""
        if key
        else "it was sent none, for no place of one is configured: set `api_key_env` or "
        f"`api_key_file` in [plugin.providers.{name}]",
    )


def _wire(name: str, settings: ProviderSettings, key: str | None) -> Wire:
    base_url = settings.base_url or DEFAULTS[settings.kind][0]
    if settings.kind == "anthropic":
        return AnthropicWire(name, base_url, key)
    if settings.api == "responses":
        return ResponsesWire(name, base_url, key)
    own = base_url == DEFAULTS["openai"][0]
    field = settings.output_limit or ("max_completion_tokens" if own else "max_tokens")
    return OpenAIWire(name, base_url, key, field)


def providers_of(settings: ProvidersSettings) -> dict[str, tuple[ProviderSettings, bool]]:
    """Return all providers by name, each with whether it needs a key to be there at all.

    ``demo`` is always there. ``anthropic`` and ``openai`` are there where they are
    configured, or where a key for them is found.
    """
    named = {name: (one, False) for name, one in settings.named.items()}
    named.setdefault("demo", (ProviderSettings(kind="demo"), False))
    for kind in ("anthropic", "openai"):
        named.setdefault(kind, (ProviderSettings(kind=kind), True))
    return named
