"""The operations of models and providers: which there are, and whether one answers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import Annotated, Literal

from pydantic import Field

from hookgate import (
    POSITIONAL,
    Address,
    Agent,
    HookgateError,
    Host,
    Invocation,
    Message,
    ModelInfo,
    ModelRef,
    ModelRequest,
    OperationModel,
    Origin,
    Provenance,
    ProviderError,
    SessionKey,
    Text,
    TextDelta,
    Turn,
    TurnError,
    TurnPlan,
    UsageEvent,
    not_found,
    operation,
)
from hookgate.catalogue import Snapshot
from hookgate.kit.model_check import agents_by_model

QUESTION = "Answer with the one word ok."
"""What a model is asked to see that it answers."""

MOST_OUTPUT = 256
"""Tokens of its answer at most. Some models think first, and are cut then: that is an answer."""

MOST_TEXT = 200
"""Characters that are shown of what it said."""

ProviderName = Annotated[str, POSITIONAL, Field(max_length=300)]


LISTED_SECONDS = 60.0
"""So long the list of a server is good: who may only chat can ask for it, too."""


class ModelRow(OperationModel):
    """One model."""

    model: str
    """`provider/model`, as the settings name it."""
    agents: list[str]
    """The agents that ask it, fallbacks included."""
    state: Literal["ready", "no provider", "lacking"]
    """Whether it can be asked."""
    why: str
    """What it lacks, where it cannot."""
    action: str
    """What to do about that."""
    context_tokens: int | None = None
    """Its longest input, where that is known."""


class ModelList(OperationModel):
    """Models, and which providers take others."""

    models: list[ModelRow]
    """What agents ask and settings name; of one provider, what its server lists too."""
    providers: list[str]
    """The providers that are there and take any model's name."""


class Tried(OperationModel):
    """What became of one question to one model."""

    model: str
    """`provider/model`."""
    ok: bool
    """Whether it answered."""
    text: str = ""
    """What it said."""
    error: str = ""
    """What went wrong."""
    kind: str = ""
    """Its kind, as in the errors of turns: `auth`, `unreachable`, `rejected`, ..."""
    action: str = ""
    """What to do about it."""
    seconds: float
    """How long it took."""
    input_tokens: int = 0
    """Tokens that were read."""
    output_tokens: int = 0
    """Tokens that were written."""


class Tested(OperationModel):
    """Whether the models answer that were asked."""

    ok: bool
    """Whether all of them did."""
    tried: list[Tried]
    """One after the other."""


class ProviderOperations:
    """Providers of models: try whether they answer."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._listed: dict[str, tuple[object, float, list[str]]] = {}

    @operation("models.list", command="models")
    async def models(self, invocation: Invocation, provider: ProviderName = "") -> ModelList:
        """List the models that agents ask, and whether each can be asked: those that you may use.

        Args:
            provider: A provider; its server is asked which models it has, once a minute at most.

        Examples:
            hookgate models
            hookgate models ollama
        """
        asked = agents_by_model(self._host.settings)
        names = dict.fromkeys([*asked, *(ref for ref, _ in _named(self._host))])
        if provider:
            served = await self._served(provider)
            names = dict.fromkeys([*(one for one in names if one.provider == provider), *served])
        return ModelList(
            models=[
                self._row(ref, asked.get(ref, []))
                for ref in names
                if invocation.principal.may_use_model(ref)
            ],
            providers=sorted(
                name
                for name, one in self._host.providers.items()
                if any(model.name == "*" for model in one.models())
            ),
        )

    @operation("providers.test", scope="operate")
    async def test(self, invocation: Invocation, name: ProviderName = "") -> Tested:
        """Ask models one short question each, and say what came of it: keys, names, addresses.

        It costs some tokens, counts as any other call, and is kept in no session. Exit code 1
        where one does not answer.

        Args:
            name: A provider or `provider/model`; without it, the models of all agents.

        Examples:
            hookgate providers test
            hookgate providers test openai/gpt-5.2
        """
        tried = [await self._try(invocation, ref) for ref in self._wanted(name)]
        return Tested(ok=all(one.ok for one in tried), tried=tried)

    # -- which ---------------------------------------------------------------

    def _row(self, ref: ModelRef, agents: list[str]) -> ModelRow:
        host = self._host
        info, there = host.described.get(ref.provider), host.providers.get(ref.provider)
        lacking = info is not None and bool(info.missing)
        known = {model.name: model for model in there.models()} if there is not None else {}
        return ModelRow(
            model=str(ref),
            agents=agents,
            state="lacking" if lacking else "ready" if there is not None else "no provider",
            why=info.missing if lacking and info else self._absent(ref) if there is None else "",
            action=info.action if lacking and info else "",
            context_tokens=known[ref.model].context_tokens if ref.model in known else None,
        )

    def _absent(self, ref: ModelRef) -> str:
        return f"no provider is called {ref.provider!r}: there is {', '.join(self._known())}"

    def _known(self) -> list[str]:
        return sorted({*self._host.providers, *self._host.described})

    async def _served(self, provider: str) -> list[ModelRef]:
        """Return the models that a provider's server lists.

        Raises:
            TurnError: There is no such provider.
            ProviderError: It was asked in vain.
        """
        there = self._host.providers.get(provider)
        if there is None:
            info = self._host.described.get(provider)
            if info is not None and info.missing:
                raise ProviderError("auth", info.missing, provider=provider, action=info.action)
            raise not_found(
                "provider", provider, f"there is {', '.join(self._known())}", known=self._known()
            )
        ask = getattr(there, "served", None)
        names = (
            await self._list(provider, there, ask)
            if ask
            else [model.name for model in there.models()]
        )
        return [ModelRef(provider, name) for name in names if name != "*"]

    async def _list(
        self, name: str, there: object, ask: Callable[[], Awaitable[list[str]]]
    ) -> list[str]:
        """Return what a server lists; its answer of the last minute is good for everybody."""
        now = self._host.clock.monotonic()
        known, until, names = self._listed.get(name, (None, 0.0, []))
        if known is not there or now >= until:
            names = await ask()
            self._listed[name] = there, now + LISTED_SECONDS, names
        return names

    def _wanted(self, name: str) -> list[ModelRef]:
        if "/" in name:
            return [ModelRef.parse(name)]
        wanted = [ref for ref in agents_by_model(self._host.settings) if name in ("", ref.provider)]
        wanted = wanted or [
            ref
            for ref, info in _named(self._host)
            if name == ref.provider or (not name and info.max_output_tokens != 0)
        ]
        if wanted:
            return wanted
        known = self._known()
        if name in known:
            raise TurnError.invalid(
                f"no agent asks a model of {name!r}, and the settings name none",
                f"name one, such as `{name}/MODEL`; `hookgate models {name}` lists them",
            )
        raise not_found("provider", name, f"there is {', '.join(known)}", known=known)

    # -- one question ----------------------------------------------------------

    async def _try(self, invocation: Invocation, ref: ModelRef) -> Tried:
        """Ask a model beside all turns, through every hook that guards and meters."""
        host, began = self._host, self._host.clock.monotonic()
        turn = _beside(host, invocation, ref)
        request = ModelRequest(
            model=ref,
            system=(),
            messages=(turn.message,),
            max_output_tokens=MOST_OUTPUT,
            input_tokens=host.tokens.count(QUESTION),
            cause="providers.test",
        )
        said, usage, failed = [], None, None
        try:
            async for event in host.call_model(turn, request):
                if isinstance(event, TextDelta):
                    said.append(event.text)
                elif isinstance(event, UsageEvent):
                    usage = event.usage
        except HookgateError as error:
            failed = error
        return Tried(
            model=str(ref),
            ok=failed is None,
            text="".join(said).strip()[:MOST_TEXT],
            error=host.secrets.redact(str(failed)) if failed else "",
            kind=str(getattr(failed, "kind", "")),
            action=host.secrets.redact(str(getattr(failed, "action", ""))),
            seconds=round(host.clock.monotonic() - began, 3),
            input_tokens=usage.input_tokens if usage else 0,
            output_tokens=usage.output_tokens if usage else 0,
        )


def _beside(host: Host, invocation: Invocation, ref: ModelRef) -> Turn:
    """Return a turn that stands for the question alone: nothing of it is run or kept."""
    address = Address("cli", "local", "providers-test")
    first, *_ = agents_by_model(host.settings).get(ref, ["none"])
    agent = Agent(name=first, models=(ref,))
    provenance = Provenance.EXTERNAL_USER
    return Turn(
        session=SessionKey(agent.name, address.channel, address.account, address.peer),
        agent=agent,
        address=address,
        principal=invocation.principal,
        origin=Origin(provenance=provenance, path=invocation.path),
        message=Message(role="user", parts=(Text(QUESTION),), provenance=provenance),
        snapshot=Snapshot(),
        plan=TurnPlan(models=(ref,)),
        started=host.clock.now(),
    )


def _named(host: Host) -> Iterable[tuple[ModelRef, ModelInfo]]:
    """Return the models that providers name, with what is known of them."""
    for name, provider in sorted(host.providers.items()):
        for model in provider.models():
            if model.name != "*":
                yield ModelRef(name, model.name), model
