"""Every exception that the gateway itself raises on purpose.

Those of channels, of vectors and of requests that go out are at home in `hookgate.channels` and
`hookgate.ports`. The tree::

    HookgateError
    ├── ConfigError                one or more problems in the settings, all at once
    ├── ContentError               another file that people write cannot be used
    ├── StartError                 the gateway cannot start; the text says what to do
    │   ├── PluginError            a plugin cannot be used (names the plugin)
    │   ├── StoreHeldError         another process holds the store
    │   └── MissingKeyError        a plugin requires a port that nobody provides
    ├── ToolDefinitionError        a tool's signature or schema cannot be used (names the tool)
    ├── HookError                  an implementation failed where its contract says `!`
    │   ├── HookTimeoutError       it suspended for longer than the contract allows
    │   └── HookResultError        it returned something that the contract does not know
    ├── TurnError                  a turn ends, or never starts; carries a wire code
    │   ├── NoAgentError           no agent could be resolved
    │   ├── NotAllowedError        the principal may not do this
    │   ├── LaneFullError          too many messages wait for one session
    │   ├── LaneHeldError          a nested turn asked for a lane that its ancestor holds
    │   ├── LaneLostError          somebody else took the session's lane while a turn ran
    │   ├── ClientToolError        a request brings a tool of its own that cannot be offered
    │   ├── RefusedError           a plugin refused the turn or the model call
    │   └── TurnCancelledError     a client, a disconnect or a deadline cancelled the turn
    ├── ProviderError              one attempt at a model failed (typed by `kind`)
    ├── StoreError                 the store
    │   ├── StoreUnavailableError  it cannot be read or written
    │   └── StaleFenceError        a lane's holder was replaced; its write is refused
    └── WireError                  what a client sent cannot be read (JSON-RPC code)

Messages say what was found, what was expected and what to do.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from hookgate.core.domain.models import Refusal


class HookgateError(Exception):
    """Base of every error that hookgate raises on purpose."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One thing that is wrong in a file that people write: settings, rules, manifests, cards.

    Attributes:
        file: Where it stands: a path, or ``environment``; "" where the settings' reader says.
        line: The line in that file, counted from 1; None where there is none.
        column: The column, counted from 1.
        key: The dotted key, for example ``gateway.port``; "" where it concerns none.
        found: What was found there, printable and with secrets masked.
        expected: What would have been right, or what to do.
        nearest: The known key that looks most like the one that was found.
        severity: An ``error`` costs what the file is about; a ``warning`` costs nothing.
    """

    file: str = ""
    line: int | None = None
    column: int | None = None
    key: str = ""
    found: str
    expected: str
    nearest: str | None = None
    severity: Literal["error", "warning"] = "error"

    @property
    def place(self) -> str:
        """``FILE:LINE:COLUMN``, as far as it is known."""
        return ":".join(str(one) for one in (self.file, self.line, self.column) if one is not None)

    def __str__(self) -> str:
        where = "".join(f"{part}: " for part in (self.place, self.key and f"`{self.key}`") if part)
        hint = f"; did you mean `{self.nearest}`?" if self.nearest else ""
        return f"{where}found {self.found}, expected {self.expected}{hint}"


class ConfigError(HookgateError):
    """The settings are wrong. `problems` holds all that is wrong, not the first only."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        super().__init__("\n".join(str(problem) for problem in problems))
        self.problems = tuple(problems)


class ContentError(HookgateError):
    """A file that people write cannot be used.

    Attributes:
        problem: Why.
    """

    def __init__(self, problem: Problem) -> None:
        super().__init__(str(problem))
        self.problem = problem


class StartError(HookgateError):
    """The gateway cannot start as it is configured."""


class PluginError(StartError):
    """A plugin cannot be imported, registered, configured or opened.

    Attributes:
        plugin: The name that the plugin runs under.
    """

    def __init__(self, plugin: str, message: str) -> None:
        super().__init__(f"plugin {plugin!r}: {message}")
        self.plugin = plugin


class StoreHeldError(StartError):
    """Another process holds the store.

    Attributes:
        pid: Its process id; 0 where it is not known.
    """

    def __init__(self, message: str, pid: int) -> None:
        super().__init__(message)
        self.pid = pid


class MissingKeyError(StartError):
    """A plugin requires a key that no plugin provides, or a key is read before it is there."""


class ToolDefinitionError(HookgateError):
    """A tool cannot be offered: its name, its signature or its schema does not do.

    Attributes:
        tool: The tool's name, as far as it has one.
    """

    def __init__(self, tool: str, message: str) -> None:
        super().__init__(f"tool {tool!r}: {message}")
        self.tool = tool


class HookError(HookgateError):
    """An implementation of a hook failed, and the hook's contract does not allow that.

    Attributes:
        hook: The hook's name.
        plugin: The name of the plugin whose implementation failed.
        reason: One line for people; the original exception is ``__cause__``.
    """

    def __init__(self, hook: str, plugin: str, reason: str) -> None:
        super().__init__(f"hook {hook} of plugin {plugin!r} failed: {reason}")
        self.hook = hook
        self.plugin = plugin
        self.reason = reason


class HookTimeoutError(HookError):
    """An implementation was suspended for longer than the hook's contract allows."""


class HookResultError(HookError):
    """An implementation returned a value of a type that the hook's contract does not know."""


class TurnError(HookgateError):
    """A turn ended with an error, or could not start.

    Attributes:
        code: A stable word for programs, for example ``no_agent``.
        action: What the caller can do about it.
        data: More for programs, JSON-ready.
    """

    code = "turn_failed"

    def __init__(
        self,
        message: str,
        *,
        code: str | None = None,
        action: str = "",
        data: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code or type(self).code
        self.action = action
        self.data = dict(data or {})

    @classmethod
    def invalid(cls, found: object, action: str = "") -> TurnError:
        """Return the error for parameters that do not fit: what was found, and what to do."""
        return cls(str(found), code="invalid_params", action=action)


class NoAgentError(TurnError):
    """No agent could be resolved for a message."""

    code = "no_agent"


class NotAllowedError(TurnError):
    """The principal lacks a scope, or claims a peer outside its bindings."""

    code = "not_allowed"


class LaneFullError(TurnError):
    """So many messages wait for this session already that one more is refused."""

    code = "lane_full"


class LaneHeldError(TurnError):
    """A nested turn asked for a lane that one of its ancestors holds, or nests too deep."""

    code = "lane_held"


class LaneLostError(TurnError):
    """Somebody else took the session's lane while a turn ran; nothing of its answer was kept."""

    code = "lane_lost"


class ClientToolError(TurnError):
    """A request brings a tool that its client runs, and it cannot be offered."""

    code = "invalid_params"


class RefusedError(TurnError):
    """A plugin refused a turn or a model call; `refusal` says who and why."""

    code = "refused"

    def __init__(self, refusal: Refusal) -> None:
        data: dict[str, Any] = {"plugin": refusal.plugin}
        if (wait := wait_of(refusal.retry_after, most=MOST_OF_REFUSALS)) is not None:
            data["retry_after"] = wait
        super().__init__(refusal.message, code=refusal.code, action=refusal.action, data=data)
        self.refusal = refusal


class TurnCancelledError(TurnError):
    """The turn was cancelled by its client, by a disconnect or by its deadline."""

    code = "cancelled"


ProviderErrorKind = Literal[
    "unreachable",
    "timeout",
    "rate_limited",
    "overloaded",
    "auth",
    "rejected",
    "context_overflow",
    "malformed",
    "cut",
    "server",
]

RETRYABLE_KINDS: frozenset[ProviderErrorKind] = frozenset(
    ("unreachable", "timeout", "rate_limited", "overloaded", "cut", "server")
)
"""Kinds of failures behind which the same request may succeed a little later."""

_PROVIDER_ACTIONS: dict[ProviderErrorKind, str] = {
    "unreachable": "see that the provider runs and its `base_url` is right, then send it again",
    "timeout": "send it again; a slow provider needs longer `first_byte_seconds`, `idle_seconds`",
    "rate_limited": "wait a moment and send it again; the provider's plan sets the limit",
    "overloaded": "wait a moment and send it again, or give the agent a `fallback`",
    "auth": "check the provider's API key",
    "rejected": "check the agent's model and `options`, and the provider's `base_url`",
    "context_overflow": "send a shorter message or begin a new session (another `peer`); or lower "
    "`context.budget_tokens`; or give the model a longer context, which is `num_ctx` of Ollama, "
    "`--ctx-size` of llama.cpp, `--max-model-len` of vLLM",
    "malformed": "check that the provider's `base_url` and `kind` are those of what answers there",
    "cut": "send it again",
    "server": "send it again; if it fails again, ask whoever runs the provider",
}


class ProviderError(HookgateError):
    """One attempt at a model failed.

    Attributes:
        kind: What sort of failure this is; `retryable` follows from it.
        provider: The provider's name.
        status: The HTTP status, if one was received.
        retry_after: Seconds that the provider asked to wait, if it did; a day at most.
        action: What to do about it; by its kind, where nothing more exact is known.
        code: A stable word for programs; ``unknown_provider`` and ``unknown_model`` say that there
            was nobody of that name to ask.
    """

    def __init__(
        self,
        kind: ProviderErrorKind,
        message: str,
        *,
        provider: str = "",
        status: int | None = None,
        retry_after: float | None = None,
        action: str = "",
        code: str = "provider_failed",
    ) -> None:
        super().__init__(message)
        self.kind: ProviderErrorKind = kind
        self.code = code
        self.provider = provider
        self.status = status
        self.retry_after = wait_of(retry_after)
        self.action = action or _PROVIDER_ACTIONS.get(kind, "")

    @property
    def retryable(self) -> bool:
        """Whether the same request may succeed a little later."""
        return self.kind in RETRYABLE_KINDS


class StoreError(HookgateError):
    """The store did not do what was asked."""


class StoreUnavailableError(StoreError):
    """The store cannot be read or written now; nothing was acknowledged."""


class StaleFenceError(StoreError):
    """A write came from a lane's holder that has been replaced since; it is refused."""

    @classmethod
    def of(cls, session: object) -> StaleFenceError:
        """Return the error for a write to `session`."""
        return cls(
            f"session {session}: somebody else has written to it since it was read, another "
            "gateway on the same store perhaps; nothing of this write was kept. Send the "
            "message again"
        )


class WireError(HookgateError):
    """What a client sent cannot be read or served.

    Attributes:
        code: The JSON-RPC error code.
        data: What to do, for programs and people.
    """

    def __init__(self, code: int, message: str, *, data: Mapping[str, Any] | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.data = dict(data or {})

    @classmethod
    def named(cls, name: str, message: str, *, action: str = "", **data: Any) -> WireError:
        """Return an error with a code that a plugin has registered, ``routes.error_code``.

        Args:
            name: The code; one that nobody has registered is answered with 500.
            message: What was found and what was expected.
            action: What the caller can do.
            data: More for programs, JSON-ready. ``retry_after`` is in seconds.
        """
        return cls(-32000, message, data={**data, "code": name, "action": action})


def counted(count: int, one: str, many: str = "") -> str:
    """Return ``1 rule`` or ``3 rules``; `many` where it is not `one` with an s."""
    return f"{count:,} {one if count == 1 else many or f'{one}s'}"


MOST_SECONDS = 86_400.0
"""The longest wait that is believed of a server: a day."""

MOST_OF_REFUSALS = 366 * MOST_SECONDS
"""The longest wait that a plugin can ask for: a budget may be for a month."""

_SECONDS = re.compile(r"-?[0-9]{1,4096}(\.[0-9]{1,4096})?")


def wait_of(value: object, *, most: float = MOST_SECONDS) -> float | None:
    """Return seconds that somebody asks to wait, from 0 to `most`; None where they are none.

    Args:
        value: A number, or the text of one, of whatever size.
        most: The longest wait that is believed.
    """
    if isinstance(value, str):
        if not _SECONDS.fullmatch(value.strip()):
            return None
        value = float(value)
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    # Compared before it is converted: an integer may be longer than any float. NaN is no wait.
    return float(min(max(value, 0.0), most)) if value == value else None
