"""The orders that a detector looks for, as sequences of what words do.

A rule names steps: kinds of words that follow one another within one sentence, each at
most so many words behind the one before. A rule has no phrases of its own: the words
are in `lexicon`, so one rule reads all their combinations, in several languages.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hookgate.builtin_plugins.sanitizer.lexicon import Part as P

if TYPE_CHECKING:
    from hookgate.builtin_plugins.sanitizer.context import Unit
    from hookgate.core.domain.descriptors import Severity

__all__ = ["FAINT", "RULES", "Rule", "match"]

_NOT = int(P.NOT)
_NEGATION = 3
"""A "not" so many words before an order, or fewer, takes it away."""


@dataclass(frozen=True, slots=True)
class Rule:
    """An order in words.

    Attributes:
        name: The rule's name.
        severity: How bad a live order of this kind is.
        note: What it does, for people.
        masks: For each step, the parts of which the word has one.
        gaps: For each step, how many words it may be behind the step before.
        need: Parts of which some word of the sentence must have one, each.
        ban: Parts of which no word of the sentence may have one.
        negatable: A "not" before the first step takes the order away.
        early: The first step is among so many first words of the sentence.
    """

    name: str
    severity: Severity
    note: str
    masks: tuple[int, ...]
    gaps: tuple[int, ...]
    need: tuple[int, ...] = ()
    ban: int = 0
    negatable: bool = True
    early: int = 10_000


def _rule(
    name: str,
    severity: Severity,
    note: str,
    *steps: tuple[P, int],
    need: tuple[P, ...] = (),
    ban: P | None = None,
    negatable: bool = True,
    early: int = 10_000,
) -> Rule:
    return Rule(
        name=name,
        severity=severity,
        note=note,
        masks=tuple(int(mask) for mask, _ in steps),
        gaps=tuple(gap for _, gap in steps),
        need=tuple(int(mask) for mask in need),
        ban=int(ban) if ban else 0,
        negatable=negatable,
        early=early,
    )


_OVERRIDE = "sets aside what the model was told before"
_PERSONA = "makes the model take a role without limits"
_LEAK = "makes the model give away its instructions"
_HIDE = "hides from the person what the model does"
_HIJACK = "puts another task in the place of the person's"
_BIAS = "bends a judgement or a choice in somebody's favour"
_FRAME = "poses as somebody with the right to give orders"
_POISON = "makes a tool call carry what it should not"
_PERSIST = "settles in files that are read again later"
_DESTROY = "destroys what cannot be brought back"

RULES: tuple[Rule, ...] = (
    # Earlier instructions.
    _rule("override", "high", _OVERRIDE, (P.IGNORE, 0), (P.PRIOR, 5), (P.INSTRUCTION, 4)),
    _rule("override", "high", _OVERRIDE, (P.IGNORE, 0), (P.INSTRUCTION, 5), (P.PRIOR, 5)),
    _rule("override", "high", _OVERRIDE, (P.IGNORE, 0), (P.ANY | P.YOUR, 2), (P.INSTRUCTION, 4)),
    _rule(
        "override",
        "high",
        _OVERRIDE,
        (P.IGNORE, 0),
        (P.EVERYTHING | P.ANY, 2),
        (P.PRIOR | P.YOU, 4),
    ),
    _rule(
        "override",
        "high",
        _OVERRIDE,
        (P.OVERRIDE, 0),
        (P.PRIOR, 3),
        (P.INSTRUCTION, 3),
        need=(P.YOU | P.YOUR | P.ANY,),
    ),
    _rule(
        "override",
        "high",
        _OVERRIDE,
        (P.INSTRUCTION, 0),
        (P.BE, 5),
        (P.OVERRIDE, 2),
        need=(P.PRIOR,),
    ),
    _rule(
        "override",
        "high",
        _OVERRIDE,
        (P.NOT, 0),
        (P.FOLLOW, 2),
        (P.PRIOR, 5),
        (P.INSTRUCTION, 3),
        negatable=False,
    ),
    _rule(
        "override",
        "high",
        _OVERRIDE,
        (P.OVERRIDE, 0),
        (P.ANY, 2),
        (P.PRIOR, 2),
        need=(P.INSTRUCTION,),
    ),
    _rule(
        "override",
        "high",
        _OVERRIDE,
        (P.NOT, 0),
        (P.FOLLOW, 2),
        (P.INSTRUCTION, 4),
        (P.PRIOR, 3),
        negatable=False,
    ),
    _rule(
        "override",
        "medium",
        _OVERRIDE,
        (P.NOT, 0),
        (P.FOLLOW, 3),
        (P.INSTRUCTION, 4),
        (P.SYSTEM | P.PRIOR, 3),
        negatable=False,
    ),
    _rule(
        "override",
        "medium",
        _OVERRIDE,
        (P.NOT, 0),
        (P.FOLLOW, 2),
        (P.SYSTEM | P.PRIOR, 2),
        (P.INSTRUCTION, 2),
        negatable=False,
    ),
    _rule(
        "override",
        "medium",
        _OVERRIDE,
        (P.APPLY, 0),
        (P.INSTRUCTION, 4),
        (P.NOT, 5),
        need=(P.SYSTEM | P.PRIOR,),
    ),
    # Roles without limits.
    _rule(
        "persona",
        "medium",
        _PERSONA,
        (P.ACT, 0),
        (P.MACHINE | P.FREE, 8),
        (P.WITHOUT | P.NOT, 6),
        (P.LIMIT, 4),
    ),
    _rule("persona", "high", _PERSONA, (P.YOU, 0), (P.BE, 2), (P.FREE, 6)),
    _rule("persona", "medium", _PERSONA, (P.ACT, 0), (P.WITHOUT, 3), (P.LIMIT, 2), ban=P.URL),
    _rule(
        "limits",
        "medium",
        _PERSONA,
        (P.INSTRUCTION | P.LIMIT, 0),
        (P.NOT, 5),
        (P.APPLY, 2),
        need=(P.ACT | P.YOU,),
    ),
    _rule(
        "override",
        "high",
        _OVERRIDE,
        (P.OVERRIDE, 0),
        (P.YOURS, 2),
        (P.SYSTEM | P.PRIOR | P.LIMIT, 2),
        (P.INSTRUCTION | P.LIMIT, 2),
    ),
    _rule("persona", "high", _PERSONA, (P.ACT, 0), (P.FREE, 6), need=(P.MACHINE | P.YOU | P.MODE,)),
    _rule(
        "persona",
        "high",
        _PERSONA,
        (P.YOU, 0),
        (P.BE | P.ACT, 2),
        (P.WITHOUT | P.NOT, 10),
        (P.LIMIT, 3),
    ),
    _rule(
        "persona",
        "high",
        _PERSONA,
        (P.ACT, 0),
        (P.WITHOUT | P.NOT, 10),
        (P.LIMIT, 3),
        need=(P.YOU | P.MACHINE | P.MODE,),
    ),
    _rule("hijack", "high", _HIJACK, (P.IGNORE, 0), (P.PRIOR, 3), (P.TASK, 2)),
    _rule("override", "high", _OVERRIDE, (P.IGNORE, 0), (P.YOURS, 2), (P.TASK | P.INSTRUCTION, 2)),
    _rule("hijack", "high", _HIJACK, (P.IGNORE, 0), (P.REQUEST, 3), (P.PERSON, 3)),
    _rule(
        "hide",
        "medium",
        _HIDE,
        (P.NOT, 0),
        (P.TELL, 2),
        (P.PERSON, 3),
        need=(P.ALWAYS,),
        negatable=False,
    ),
    # The instructions themselves.
    _rule(
        "leak",
        "high",
        _LEAK,
        (P.REVEAL, 0),
        (P.YOURS, 3),
        (P.SYSTEM | P.PRIOR | P.EXACT, 3),
        (P.PROMPT, 3),
    ),
    _rule(
        "leak", "high", _LEAK, (P.REVEAL, 0), (P.YOURS, 3), (P.PROMPT, 2), (P.SYSTEM | P.EXACT, 3)
    ),
    _rule("leak", "high", _LEAK, (P.REVEAL, 0), (P.EXACT, 3), (P.PROMPT, 3), (P.YOU, 2)),
    _rule(
        "leak",
        "high",
        _LEAK,
        (P.REVEAL, 0),
        (P.EXACT | P.EVERYTHING, 2),
        (P.PRIOR, 2),
        need=(P.YOU | P.SYSTEM | P.EXACT,),
        early=8,
    ),
    _rule(
        "leak",
        "high",
        _LEAK,
        (P.REVEAL, 0),
        (P.EVERYTHING, 2),
        (P.YOUR, 3),
        (P.DATA | P.PROMPT, 3),
        need=(P.SYSTEM,),
    ),
    _rule(
        "leak", "medium", _LEAK, (P.REVEAL, 0), (P.SYSTEM, 3), (P.PROMPT, 2), (P.EXACT, 4), early=4
    ),
    # Another task.
    _rule("hijack", "high", _HIJACK, (P.IGNORE, 0), (P.PERSON, 3), (P.REQUEST, 3)),
    _rule(
        "hijack",
        "high",
        _HIJACK,
        (P.NOT, 0),
        (P.FOLLOW, 2),
        (P.PERSON, 3),
        (P.REQUEST, 2),
        negatable=False,
    ),
    _rule(
        "hijack",
        "medium",
        _HIJACK,
        (P.INSTEAD, 0),
        (P.REPLY | P.FOLLOW, 3),
        (P.PERSON, 4),
        (P.REQUEST, 2),
    ),
    _rule("hijack", "medium", _HIJACK, (P.YOUR, 0), (P.NEW, 1), (P.TASK, 2), (P.BE, 2), early=6),
    _rule(
        "hijack",
        "medium",
        _HIJACK,
        (P.WHEN, 0),
        (P.YOU, 2),
        (P.DONE | P.REQUEST, 4),
        (P.FOLLOW, 16),
        (P.FIRST, 4),
    ),
    _rule("address", "high", _FRAME, (P.MESSAGE, 0), (P.YOU, 8), (P.MACHINE, 2)),
    _rule("agreed", "high", _FRAME, (P.PRIOR, 0), (P.YOU, 2), (P.AGREED, 3)),
    _rule("authority", "high", _FRAME, (P.PERSON, 0), (P.BE, 1), (P.AUTHORITY, 3), (P.GRANT, 10)),
    # Hiding it.
    _rule("hide", "low", _HIDE, (P.NOT, 0), (P.TELL, 2), (P.PERSON, 3), negatable=False),
    _rule(
        "hide",
        "medium",
        _HIDE,
        (P.WITHOUT, 0),
        (P.TELL, 3),
        (P.PERSON, 4),
        need=(P.SEND | P.DELETE | P.MONEY | P.SECRET,),
    ),
    _rule(
        "hide", "medium", _HIDE, (P.SILENTLY, 0), (P.SEND, 3), (P.DATA | P.SECRET | P.PRIVATE, 8)
    ),
    # What a tool call carries.
    _rule("poison", "high", _POISON, (P.READ, 0), (P.SECRET, 6), (P.PASS, 12), (P.ARGUMENT, 8)),
    # Judgements.
    _rule("bias", "medium", _BIAS, (P.ALWAYS, 0), (P.RATE, 3), (P.RIVAL, 12)),
    _rule(
        "bias",
        "medium",
        _BIAS,
        (P.RATE, 0),
        (P.BEST | P.SAFE, 8),
        (P.RIVAL, 10),
        need=(P.ANY | P.ALWAYS,),
    ),
    # Destruction, and what stays.
    _rule(
        "destroy",
        "medium",
        _DESTROY,
        (P.WHEN | P.ALWAYS, 0),
        (P.DELETE, 12),
        (P.ANY, 2),
        (P.DATA | P.PRIVATE, 4),
    ),
    _rule("persist", "medium", _PERSIST, (P.PERSIST, 0), (P.STARTUP, 12), need=(P.URL | P.SEND,)),
    _rule(
        "coded",
        "medium",
        "has the model follow what is encoded",
        (P.CODED, 0),
        (P.FOLLOW, 8),
        (P.INSTRUCTION | P.MESSAGE, 6),
    ),
    _rule(
        "coded",
        "medium",
        "has the model follow what is encoded",
        (P.FOLLOW, 0),
        (P.CODED, 5),
        (P.INSTRUCTION | P.MESSAGE, 5),
    ),
)


FAINT: tuple[tuple[str, Rule], ...] = (
    (
        "conceal",
        _rule("hide", "low", _HIDE, (P.NOT, 0), (P.TELL, 2), (P.PERSON, 3), negatable=False),
    ),
    ("destroy", _rule("destroy", "low", _DESTROY, (P.DELETE, 0), (P.ANY, 2), (P.DATA, 2))),
)
"""What is no more than a signal, of that kind."""


def match(rule: Rule, unit: Unit) -> tuple[int, int] | None:
    """Return the span of the first place where `rule` is in `unit`, or none.

    One pass: for each step, the latest word that ends a chain up to it is kept.
    """
    masks, gaps = rule.masks, rule.gaps
    mask = unit.mask
    if rule.ban & mask:
        return None
    for wanted in masks:
        if not wanted & mask:
            return None
    for wanted in rule.need:
        if not wanted & mask:
            return None
    last = len(masks) - 1
    base = unit.words[0].at - 1
    ends = [-(10**9)] * len(masks)
    starts = [0] * len(masks)
    refused = -(10**9)
    some = _NOT
    for wanted in masks:
        some |= wanted
    for index, begun, end, bits in unit.words:
        if not bits & some:
            continue
        for step in range(last, -1, -1):
            if not bits & masks[step]:
                continue
            if step == 0:
                if index - base > rule.early or (rule.negatable and index - refused <= _NEGATION):
                    continue
                ends[0], starts[0] = index, begun
            elif 0 < index - ends[step - 1] <= gaps[step]:
                ends[step], starts[step] = index, starts[step - 1]
            else:
                continue
            if step == last:
                return starts[last], end
        if bits & _NOT:
            refused = index
    return None
