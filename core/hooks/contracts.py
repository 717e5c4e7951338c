"""The hooks of a gateway: each specification with its contract and its implementations.

Package-private: `core.hooks.caller` is the face of this.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial, reduce
from operator import or_
from typing import TYPE_CHECKING, Any

from hookgate.core.domain.errors import ConfigProblem, StartError
from hookgate.core.hooks.dispatch import Implementation, bind
from hookgate.core.hooks.results import Expected, annotation_of, expected_of, members_of
from hookgate.core.settings.sections import nearest, problem
from hookgate.hookspecs import Contract

if TYPE_CHECKING:
    import pluggy

    from hookgate.core.hooks.pool import Pool
    from hookgate.core.settings.schema import HookSettings


class Chain:
    """One hook with its implementations in call order.

    Attributes:
        name: The hook's name.
        names: The names of its arguments, in order.
        contract: Its contract, as the operator has tightened it.
        expected: What an implementation may return.
        turn: The place of the turn among the arguments, if it is one.
        ends: Of a fold, the results that end it.
        implementations: The implementations, the first one to be called first.
    """

    __slots__ = ("contract", "ends", "expected", "implementations", "name", "names", "turn")

    def __init__(
        self, name: str, spec: Callable[..., Any], names: tuple[str, ...], contract: Contract
    ) -> None:
        self.name = name
        self.names = names
        self.contract = contract
        result = annotation_of(spec, "return")
        self.expected: Expected = expected_of(result)
        self.turn = names.index("turn") if "turn" in names else None
        self.ends: Expected | None = None
        if contract.combine == "fold":
            carried = members_of(annotation_of(spec, names[-1]))
            others = [member for member in members_of(result) if member not in carried]
            if others:
                self.ends = expected_of(reduce(or_, others))
        self.implementations: tuple[Implementation, ...] = ()

    def bind(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> tuple[Any, ...]:
        """Return the arguments in order.

        Raises:
            TypeError: One is missing, or there is one too many.
        """
        if kwargs or len(args) != len(self.names):
            return bind(self.name, self.names, args, kwargs)
        return args


class Chains(dict[Callable[..., Any], Chain]):
    """Every hook by its specification."""

    def __missing__(self, spec: Callable[..., Any]) -> Chain:
        raise LookupError(
            f"{getattr(spec, '__name__', spec)!r} is no hook of this gateway: expected a "
            "function of hookgate.hookspecs, or one that a running plugin publishes"
        )

    def named(self, name: str) -> Chain | None:
        """Return the hook with this name."""
        return next((chain for chain in self.values() if chain.name == name), None)


def contracts_of(manager: pluggy.PluginManager) -> dict[str, Contract]:
    """Return the contract of every hook that `manager` has a specification of."""
    return {
        name: getattr(caller.spec.function, "__contract__", Contract(combine="each"))
        for name, caller in vars(manager.hook).items()
        if caller.spec is not None
    }


def chains_of(
    manager: pluggy.PluginManager,
    contracts: Mapping[str, Contract],
    pool: Callable[[str], Pool],
) -> Chains:
    """Read specifications and implementations of `manager`.

    Args:
        manager: Specifications are added and plugins are registered.
        contracts: The contract of every hook by name.
        pool: Returns the threads of a plugin by its name.

    Raises:
        StartError: A specification has an argument with a default.
    """
    chains = Chains()
    for name, contract in contracts.items():
        caller = getattr(manager.hook, name)
        spec = caller.spec
        if spec.kwargnames:
            raise StartError(
                f"hook {name}: the specification gives {spec.kwargnames[0]!r} a default, which "
                "no implementation would ever see: remove the default"
            )
        chain = chains[spec.function] = Chain(name, spec.function, spec.argnames, contract)
        chain.implementations = tuple(
            _implementation(chain, impl, pool) for impl in reversed(caller.get_hookimpls())
        )
    return chains


def _implementation(
    chain: Chain, impl: pluggy.HookImpl, pool: Callable[[str], Pool]
) -> Implementation:
    positions = tuple(map(chain.names.index, impl.argnames))
    blocks = getattr(impl.function, "__hookgate_blocking__", False)
    return Implementation(
        chain.name,
        impl.plugin_name,
        impl.function,
        positions=None if impl.argnames == chain.names else positions,
        limit=chain.contract.limit,
        required=chain.contract.required,
        expected=chain.expected,
        pool=partial(pool, impl.plugin_name) if blocks else None,
    )


def tightened(
    contracts: Mapping[str, Contract], overrides: Mapping[str, HookSettings]
) -> tuple[dict[str, Contract], list[ConfigProblem]]:
    """Return the contracts with the operator's overrides, and what is wrong with these.

    A hook that is not known is a problem, and so is one that would be loosened.
    """
    result = dict(contracts)
    problems: list[ConfigProblem] = []
    for name, override in overrides.items():
        contract = contracts.get(name)
        if contract is None:
            near = nearest(name, contracts, "hooks.")
            problems.append(problem(f"hooks.{name}", "an unknown hook", "a hook's name", near))
            continue
        limit = contract.limit if override.limit is None else override.limit
        if limit > contract.limit:
            expected = f"at most {contract.limit:g}: a contract is tightened, never loosened"
            problems.append(problem(f"hooks.{name}.limit", f"{limit:g}", expected))
        result[name] = Contract(
            combine=contract.combine,
            required=contract.required or override.required is True,
            limit=limit,
            settle=contract.settle,
        )
    return result, problems
