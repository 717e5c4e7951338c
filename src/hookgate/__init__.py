"""hookgate: a gateway between people and language models in which every feature is a plugin.

The names below are all that a plugin's author imports; what lies behind them may move.
Importing the package loads none of them: a name loads its module when it is first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hookgate.builtin_plugins.inventory.record import CapabilityRecord
    from hookgate.builtin_plugins.inventory.sources.source import (
        CapabilityChange,
        CapabilityInstall,
        RuntimeDisconnectedError,
        RuntimeSource,
        UnknownCapabilityError,
        UnsupportedCapabilityWriteError,
    )
    from hookgate.core.domain.channels.channel import Channel, ChannelFeatures, Choice
    from hookgate.core.domain.channels.hosted import (
        AnsweringChannel,
        Handshake,
        HostedChannel,
        Parsed,
        PolledChannel,
        Polling,
        RawMessage,
        ReceivedMessage,
        Webhook,
        WebhookReply,
    )
    from hookgate.core.domain.descriptors import (
        Capabilities,
        Capability,
        CapabilityDetail,
        Card,
        Finding,
        Flags,
        Rejected,
        Selection,
        Triggers,
    )
    from hookgate.core.domain.errors import (
        ChannelError,
        ConfigError,
        EgressDeniedError,
        EgressFailedError,
        HookgateError,
        MissingKeyError,
        NotAllowedError,
        ProviderError,
        StaleFenceError,
        StartError,
        StoreError,
        TurnCancelledError,
        TurnError,
        WireError,
    )
    from hookgate.core.domain.events import Event
    from hookgate.core.domain.messages import (
        CLEAN,
        Message,
        Provenance,
        Taint,
        ToolResultPart,
        ToolUse,
    )
    from hookgate.core.domain.metrics import Instrument, Label, MetricRecord, RecordSource
    from hookgate.core.domain.models import (
        Ending,
        ModelEvent,
        ModelInfo,
        ModelParameters,
        ModelRef,
        ModelRequest,
        OpaqueDelta,
        Provider,
        ReasoningDelta,
        Refusal,
        StopEvent,
        SystemText,
        TextDelta,
        ToolUseEvent,
        Usage,
        UsageEvent,
        source_of,
    )
    from hookgate.core.domain.operations import (
        Access,
        Cors,
        Empty,
        Invocation,
        Operation,
        OperationModel,
    )
    from hookgate.core.domain.parts import Audio, Content, Document, Image, Link, Text
    from hookgate.core.domain.ports import (
        AUDIT,
        BILLS,
        CLOCK,
        CONVERSATIONS,
        EGRESS,
        EMBEDDER,
        LANES,
        OUTCOME_WINDOWS,
        QUESTIONS,
        SECRETS,
        SIGNALS,
        STORE,
        SWITCHES,
        TOKENS,
        Clock,
        Conversations,
        Embedder,
        Key,
        Lanes,
        Lease,
        Loaded,
        OutcomeEntry,
        OutcomeWindows,
        Page,
        PartsEmbedder,
        Question,
        Said,
        Settled,
        Switch,
        embed_parts,
    )
    from hookgate.core.domain.tools import (
        Ask,
        Decision,
        Effect,
        Tool,
        ToolCall,
        ToolResult,
        Verdict,
    )
    from hookgate.core.domain.turn import (
        Address,
        Agent,
        Claim,
        Credential,
        Fence,
        FinishedCall,
        Origin,
        Outcome,
        Principal,
        RequestFlag,
        SessionKey,
        Turn,
        TurnKey,
        TurnPlan,
        TurnRequest,
    )
    from hookgate.core.gateway.bodies import read_unverified
    from hookgate.core.gateway.codes import ErrorAnswer
    from hookgate.core.gateway.request_keys import client_of, principal_of
    from hookgate.core.gateway.routes import Routes
    from hookgate.core.gateway.wire.sse import EventStream
    from hookgate.core.hooks.dispatch import HookFailure
    from hookgate.core.host import Host
    from hookgate.core.registry.snapshots import CapabilityIndex
    from hookgate.core.settings.schema import Section, Settings
    from hookgate.core.turn.context import Block, ContextBuilder
    from hookgate.core.turn.handle import TurnHandle
    from hookgate.gateway import Gateway
    from hookgate.hookspecs import blocking, hookimpl, hookspec
    from hookgate.kit.tokens.bounds import input_bound, upper_bound
    from hookgate.kit.tooling import tool

__all__ = [
    "AUDIT",
    "BILLS",
    "CLEAN",
    "CLOCK",
    "CONVERSATIONS",
    "EGRESS",
    "EMBEDDER",
    "LANES",
    "OUTCOME_WINDOWS",
    "QUESTIONS",
    "SECRETS",
    "SIGNALS",
    "STORE",
    "SWITCHES",
    "TOKENS",
    "Access",
    "Address",
    "Agent",
    "AnsweringChannel",
    "Ask",
    "Audio",
    "Block",
    "Capabilities",
    "Capability",
    "CapabilityChange",
    "CapabilityDetail",
    "CapabilityIndex",
    "CapabilityInstall",
    "CapabilityRecord",
    "Card",
    "Channel",
    "ChannelError",
    "ChannelFeatures",
    "Choice",
    "Claim",
    "Clock",
    "ConfigError",
    "Content",
    "ContextBuilder",
    "Conversations",
    "Cors",
    "Credential",
    "Decision",
    "Document",
    "Effect",
    "EgressDeniedError",
    "EgressFailedError",
    "Embedder",
    "Empty",
    "Ending",
    "ErrorAnswer",
    "Event",
    "EventStream",
    "Fence",
    "Finding",
    "FinishedCall",
    "Flags",
    "Gateway",
    "Handshake",
    "HookFailure",
    "HookgateError",
    "Host",
    "HostedChannel",
    "Image",
    "Instrument",
    "Invocation",
    "Key",
    "Label",
    "Lanes",
    "Lease",
    "Link",
    "Loaded",
    "Message",
    "MetricRecord",
    "MissingKeyError",
    "ModelEvent",
    "ModelInfo",
    "ModelParameters",
    "ModelRef",
    "ModelRequest",
    "NotAllowedError",
    "OpaqueDelta",
    "Operation",
    "OperationModel",
    "Origin",
    "Outcome",
    "OutcomeEntry",
    "OutcomeWindows",
    "Page",
    "Parsed",
    "PartsEmbedder",
    "PolledChannel",
    "Polling",
    "Principal",
    "Provenance",
    "Provider",
    "ProviderError",
    "Question",
    "RawMessage",
    "ReasoningDelta",
    "ReceivedMessage",
    "RecordSource",
    "Refusal",
    "Rejected",
    "RequestFlag",
    "Routes",
    "RuntimeDisconnectedError",
    "RuntimeSource",
    "Said",
    "Section",
    "Selection",
    "SessionKey",
    "Settings",
    "Settled",
    "StaleFenceError",
    "StartError",
    "StopEvent",
    "StoreError",
    "Switch",
    "SystemText",
    "Taint",
    "Text",
    "TextDelta",
    "Tool",
    "ToolCall",
    "ToolResult",
    "ToolResultPart",
    "ToolUse",
    "ToolUseEvent",
    "Triggers",
    "Turn",
    "TurnCancelledError",
    "TurnError",
    "TurnHandle",
    "TurnKey",
    "TurnPlan",
    "TurnRequest",
    "UnknownCapabilityError",
    "UnsupportedCapabilityWriteError",
    "Usage",
    "UsageEvent",
    "Verdict",
    "Webhook",
    "WebhookReply",
    "WireError",
    "__version__",
    "blocking",
    "client_of",
    "embed_parts",
    "hookimpl",
    "hookspec",
    "input_bound",
    "principal_of",
    "read_unverified",
    "source_of",
    "tool",
    "upper_bound",
]

__version__ = "0.1.0"

_NAMES = {
    "hookgate.builtin_plugins.inventory.record": "CapabilityRecord",
    "hookgate.builtin_plugins.inventory.sources.source": (
        "CapabilityChange CapabilityInstall RuntimeDisconnectedError RuntimeSource "
        "UnknownCapabilityError UnsupportedCapabilityWriteError"
    ),
    "hookgate.core.domain.channels.channel": "Channel ChannelFeatures Choice",
    "hookgate.core.domain.channels.hosted": (
        "AnsweringChannel Handshake HostedChannel Parsed PolledChannel Polling RawMessage "
        "ReceivedMessage Webhook WebhookReply"
    ),
    "hookgate.core.domain.descriptors": (
        "Capabilities Capability CapabilityDetail Card Finding Flags Rejected Selection Triggers"
    ),
    "hookgate.core.domain.errors": (
        "ChannelError ConfigError EgressDeniedError EgressFailedError HookgateError "
        "MissingKeyError NotAllowedError ProviderError StaleFenceError StartError StoreError "
        "TurnCancelledError TurnError WireError"
    ),
    "hookgate.core.domain.events": "Event",
    "hookgate.core.domain.messages": ("CLEAN Message Provenance Taint ToolResultPart ToolUse"),
    "hookgate.core.domain.metrics": "Instrument Label MetricRecord RecordSource",
    "hookgate.core.domain.models": (
        "Ending ModelEvent ModelInfo ModelParameters ModelRef ModelRequest OpaqueDelta Provider "
        "ReasoningDelta Refusal StopEvent SystemText TextDelta ToolUseEvent Usage UsageEvent "
        "source_of"
    ),
    "hookgate.core.domain.operations": "Access Cors Empty Invocation Operation OperationModel",
    "hookgate.core.domain.parts": "Audio Content Document Image Link Text",
    "hookgate.core.domain.ports": (
        "AUDIT BILLS CLOCK CONVERSATIONS EGRESS EMBEDDER LANES OUTCOME_WINDOWS QUESTIONS SECRETS "
        "SIGNALS STORE SWITCHES TOKENS Clock Conversations Embedder Key Lanes Lease Loaded "
        "OutcomeEntry OutcomeWindows Page PartsEmbedder Question Said Settled Switch embed_parts"
    ),
    "hookgate.core.domain.tools": "Ask Decision Effect Tool ToolCall ToolResult Verdict",
    "hookgate.core.domain.turn": (
        "Address Agent Claim Credential Fence FinishedCall Origin Outcome Principal RequestFlag "
        "SessionKey Turn TurnKey TurnPlan TurnRequest"
    ),
    "hookgate.core.gateway.bodies": "read_unverified",
    "hookgate.core.gateway.codes": "ErrorAnswer",
    "hookgate.core.gateway.request_keys": "client_of principal_of",
    "hookgate.core.gateway.routes": "Routes",
    "hookgate.core.gateway.wire.sse": "EventStream",
    "hookgate.core.hooks.dispatch": "HookFailure",
    "hookgate.core.host": "Host",
    "hookgate.core.registry.snapshots": "CapabilityIndex",
    "hookgate.core.settings.schema": "Section Settings",
    "hookgate.core.turn.context": "Block ContextBuilder",
    "hookgate.kit.tokens.bounds": "input_bound upper_bound",
    "hookgate.core.turn.handle": "TurnHandle",
    "hookgate.gateway": "Gateway",
    "hookgate.hookspecs": "blocking hookimpl hookspec",
    "hookgate.kit.tooling": "tool",
}
"""Where each name is at home. Type checkers read the imports above; a test compares both."""

_HOMES = {name: module for module, names in _NAMES.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
