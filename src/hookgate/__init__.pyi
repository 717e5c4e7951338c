# ruff: noqa: I001

from hookgate.builtin_plugins.inventory.record import (
    CapabilityRecord as CapabilityRecord,
)
from hookgate.builtin_plugins.inventory.sources import (
    CapabilityChange as CapabilityChange,
    CapabilityInstall as CapabilityInstall,
    RuntimeDisconnectedError as RuntimeDisconnectedError,
    RuntimeSource as RuntimeSource,
    UnknownCapabilityError as UnknownCapabilityError,
    UnsupportedCapabilityWriteError as UnsupportedCapabilityWriteError,
)
from hookgate.channels import (
    ChannelError as ChannelError,
    Channel as Channel,
    ChannelFeatures as ChannelFeatures,
    Choice as Choice,
    AnsweringChannel as AnsweringChannel,
    Handshake as Handshake,
    HostedChannel as HostedChannel,
    Parsed as Parsed,
    PolledChannel as PolledChannel,
    Polling as Polling,
    RawMessage as RawMessage,
    ReceivedMessage as ReceivedMessage,
    Webhook as Webhook,
    WebhookReply as WebhookReply,
)
from hookgate.core.domain.descriptors import (
    Capability as Capability,
    CapabilityDetail as CapabilityDetail,
    CapabilityKind as CapabilityKind,
    Card as Card,
    CardOrigin as CardOrigin,
    FLAG_NAMES as FLAG_NAMES,
    Finding as Finding,
    Flags as Flags,
    Rejected as Rejected,
    Selection as Selection,
    Severity as Severity,
    Triggers as Triggers,
)
from hookgate.core.domain.errors import (
    ConfigError as ConfigError,
    Problem as Problem,
    HookgateError as HookgateError,
    LaneFullError as LaneFullError,
    LaneLostError as LaneLostError,
    MissingKeyError as MissingKeyError,
    NotAllowedError as NotAllowedError,
    PluginError as PluginError,
    ProviderError as ProviderError,
    ProviderErrorKind as ProviderErrorKind,
    RETRYABLE_KINDS as RETRYABLE_KINDS,
    StaleFenceError as StaleFenceError,
    StartError as StartError,
    StoreError as StoreError,
    StoreHeldError as StoreHeldError,
    StoreUnavailableError as StoreUnavailableError,
    ToolDefinitionError as ToolDefinitionError,
    TurnCancelledError as TurnCancelledError,
    TurnError as TurnError,
    WireError as WireError,
    counted as counted,
    wait_of as wait_of,
)
from hookgate.core.domain.events import (
    Event as Event,
    LogLine as LogLine,
    LogTail as LogTail,
    MetricRecord as MetricRecord,
    PartStanding as PartStanding,
    Standings as Standings,
)
from hookgate.core.domain.messages import (
    CLEAN as CLEAN,
    Message as Message,
    Opaque as Opaque,
    Part as Part,
    Provenance as Provenance,
    Taint as Taint,
    ToolResultPart as ToolResultPart,
    ToolUse as ToolUse,
    join_taints as join_taints,
    new_id as new_id,
)
from hookgate.core.domain.models import (
    AS_CONFIGURED as AS_CONFIGURED,
    TokenCount as TokenCount,
    Citation as Citation,
    Embed as Embed,
    Embedded as Embedded,
    Ending as Ending,
    Frame as Frame,
    ModelEvent as ModelEvent,
    ModelInfo as ModelInfo,
    ModelParameters as ModelParameters,
    ModelRef as ModelRef,
    ModelRequest as ModelRequest,
    OpaqueDelta as OpaqueDelta,
    Provider as Provider,
    ProviderInfo as ProviderInfo,
    ReasoningDelta as ReasoningDelta,
    Refusal as Refusal,
    StopEvent as StopEvent,
    StopReason as StopReason,
    SystemText as SystemText,
    TextDelta as TextDelta,
    ToolUseEvent as ToolUseEvent,
    Usage as Usage,
    UsageEvent as UsageEvent,
    source_of as source_of,
)
from hookgate.core.gateway.operations import (
    Empty as Empty,
    Invocation as Invocation,
    Operation as Operation,
    OperationModel as OperationModel,
)
from hookgate.kit.functions.operations import (
    POSITIONAL as POSITIONAL,
    not_found as not_found,
    operation as operation,
    operations_of as operations_of,
)
from hookgate.core.gateway.routes import Access as Access, Cors as Cors
from hookgate.core.domain.parts import (
    Audio as Audio,
    Content as Content,
    ContentPart as ContentPart,
    Document as Document,
    Image as Image,
    Link as Link,
    Text as Text,
    plain_text as plain_text,
)
from hookgate.core.domain.ports import (
    AUDIT as AUDIT,
    BILLS as BILLS,
    CLOCK as CLOCK,
    CONVERSATIONS as CONVERSATIONS,
    Clock as Clock,
    Conversations as Conversations,
    Key as Key,
    LANES as LANES,
    Lanes as Lanes,
    Lease as Lease,
    Loaded as Loaded,
    Page as Page,
    SECRETS as SECRETS,
    SWITCHES as SWITCHES,
    Said as Said,
    Secrets as Secrets,
    Switch as Switch,
    set_switch as set_switch,
    TOKENS as TOKENS,
    TokenCounter as TokenCounter,
)
from hookgate.ports import STORE as STORE, Store as Store
from hookgate.core.domain.ports import SIGNALS as SIGNALS, Signals as Signals
from hookgate.ports import (
    EmbeddingError as EmbeddingError,
    EgressError as EgressError,
    EgressDeniedError as EgressDeniedError,
    EgressFailedError as EgressFailedError,
    EgressFailureKind as EgressFailureKind,
    BUDGETS as BUDGETS,
    BudgetView as BudgetView,
    EGRESS as EGRESS,
    EMBEDDER as EMBEDDER,
    Egress as Egress,
    Embedder as Embedder,
    OUTCOME_WINDOWS as OUTCOME_WINDOWS,
    OutcomeEntry as OutcomeEntry,
    OutcomeWindows as OutcomeWindows,
    PartsEmbedder as PartsEmbedder,
    QUESTIONS as QUESTIONS,
    Question as Question,
    Questions as Questions,
    ACCEPTANCES as ACCEPTANCES,
    Acceptance as Acceptance,
    Acceptances as Acceptances,
    Subject as Subject,
    Settled as Settled,
    embed_parts as embed_parts,
)
from hookgate.core.domain.tools import (
    Answer as Answer,
    Would as Would,
    Ask as Ask,
    ClientCallFlags as ClientCallFlags,
    Decision as Decision,
    Effect as Effect,
    EffectName as EffectName,
    LONGEST_ASK as LONGEST_ASK,
    Recheck as Recheck,
    Tool as Tool,
    ToolCall as ToolCall,
    ToolOwner as ToolOwner,
    ToolResult as ToolResult,
    Verdict as Verdict,
)
from hookgate.core.turn.end import outcome_by_ending as outcome_by_ending
from hookgate.core.domain.turn import (
    Address as Address,
    Agent as Agent,
    Claim as Claim,
    Credential as Credential,
    Fence as Fence,
    FinishedCall as FinishedCall,
    Origin as Origin,
    Outcome as Outcome,
    Principal as Principal,
    REQUEST_OVERRIDE as REQUEST_OVERRIDE,
    RequestFlag as RequestFlag,
    Scope as Scope,
    SessionKey as SessionKey,
    Turn as Turn,
    TurnAnswer as TurnAnswer,
    TurnEnding as TurnEnding,
    TurnKey as TurnKey,
    TurnPlan as TurnPlan,
    TurnRequest as TurnRequest,
    key_text as key_text,
)
from hookgate.core.gateway.requests import (
    read_unverified as read_unverified,
)
from hookgate.core.gateway.codes import (
    ErrorAnswer as ErrorAnswer,
)
from hookgate.core.gateway.requests import client_of as client_of
from hookgate.core.gateway.requests import principal_of as principal_of
from hookgate.core.gateway.routes import (
    Routes as Routes,
)
from hookgate.core.gateway.wire.sse import (
    EventStream as EventStream,
)
from hookgate.core.hooks.dispatch import (
    HookFailure as HookFailure,
    Implementation as Implementation,
)
from hookgate.core.host import (
    Host as Host,
    PluginInfo as PluginInfo,
    QuarterTokens as QuarterTokens,
)
from hookgate.core.registry.snapshots import (
    Capabilities as Capabilities,
    CapabilityIndex as CapabilityIndex,
)
from hookgate.core.settings.schema import (
    Section as Section,
    Settings as Settings,
)
from hookgate.core.turn.context import (
    Block as Block,
    ContextBuilder as ContextBuilder,
)
from hookgate.core.turn.end import (
    WHOLE_ANSWER as WHOLE_ANSWER,
)
from hookgate.core.turn.handle import (
    TurnHandle as TurnHandle,
)
from hookgate.core.turn.tools.call import (
    MAX_ROUNDS as MAX_ROUNDS,
)
from hookgate.gateway import (
    Gateway as Gateway,
)
from hookgate.hookspecs import (
    blocking as blocking,
    hookimpl as hookimpl,
    hookspec as hookspec,
)
from hookgate.kit.tokens.bounds import (
    input_bound as input_bound,
    upper_bound as upper_bound,
)
from hookgate.kit.tooling import (
    tool as tool,
)
from hookgate.metrics import (
    Instrument as Instrument,
    Label as Label,
    RecordSource as RecordSource,
)

__version__: str
