"""Capabilities: what the gateway can offer to a model, and what is known about each.

A tool, a skill, an extension, a channel and a card are all capabilities; they differ
in `kind`. Flags say what a tool does to the world, in three states.
"""

from __future__ import annotations

import hashlib
import unicodedata
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields
from operator import attrgetter
from typing import Any, Literal, TypeAlias

from hookgate.core.domain.messages import CLEAN, Taint

CapabilityKind: TypeAlias = str
"""What a capability is, in one word: `KINDS` has the known ones, and a plugin may bring others."""
Standing: TypeAlias = Literal["proven", "declared", "unknown"]
Severity: TypeAlias = Literal["low", "medium", "high"]
Whose: TypeAlias = Literal["own", "plugin", "foreign"]
CardOrigin: TypeAlias = Literal["repo", "configured", "workspace", "user", "plugin"]

KINDS: Mapping[CapabilityKind, str] = {
    "tool": "Tools",
    "skill": "Skills",
    "extension": "Extensions",
    "channel": "Channels",
    "connector": "Connectors",
    "resource": "Resources",
    "prompt": "Prompts",
    "card": "Cards",
}
"""The known kinds, in the order in which they are listed, and what many of one are called."""

KIND_PATTERN = r"[a-z][a-z0-9_-]{0,31}"
"""The name of a kind."""

EXAMPLES, EXAMPLE_CHARS = 8, 200
"""Example messages that a capability may bring, and how long each may be, in characters."""

FLAG_NAMES = (
    "reads_external_data",
    "writes_persistent_state",
    "sends_externally",
    "executes_privileged",
    "creates_autonomous_actions",
)


def _camel(name: str) -> str:
    head, *rest = name.split("_")
    return head + "".join(word.capitalize() for word in rest)


@dataclass(frozen=True, slots=True, kw_only=True)
class Flags:
    """What a tool does, as five statements that are each True, False or None.

    None means undeclared. Undeclared is never read as False: the absence of a
    declaration is not clearance.

    Attributes:
        reads_external_data: It returns text that somebody else wrote: web pages, mail, files.
        writes_persistent_state: It changes something that outlives the turn.
        sends_externally: It can carry data out: mail, messages, requests with a body or a query.
        executes_privileged: It runs commands or acts with raised rights.
        creates_autonomous_actions: It makes something that acts later by itself.
        proven: The names of the flags that do not rest on a declaration but on what
            the sandbox grants.
        grounds: Of flags by name, what they rest on in particular, such as a grant: a text for
            people, which changes nothing.
    """

    reads_external_data: bool | None = None
    writes_persistent_state: bool | None = None
    sends_externally: bool | None = None
    executes_privileged: bool | None = None
    creates_autonomous_actions: bool | None = None
    proven: frozenset[str] = frozenset()
    grounds: tuple[tuple[str, str], ...] = field(default=(), compare=False)

    @classmethod
    def none(cls) -> Flags:
        """Return flags that declare all five as False: a pure function."""
        return cls.from_mapping(dict.fromkeys(FLAG_NAMES, False))

    @classmethod
    def from_mapping(cls, data: Mapping[str, Any]) -> Flags:
        """Read flags from a manifest; snake_case and camelCase names both work.

        Raises:
            ValueError: A name is not one of the five, is given twice, or its value is
                neither true, false nor null.
        """
        known = {name: name for name in FLAG_NAMES} | {_camel(name): name for name in FLAG_NAMES}
        values: dict[str, bool | None] = {}
        for key, value in data.items():
            name = known.get(key)
            if name is None:
                raise ValueError(f"unknown flag {key!r}: expected one of {', '.join(FLAG_NAMES)}")
            if name in values:
                raise ValueError(f"flag {name!r} is given twice, in both spellings: keep one")
            if value is not None and not isinstance(value, bool):
                raise ValueError(f"flag {key!r}: found {value!r}, expected true, false or null")
            values[name] = value
        return cls(**values)  # type: ignore[arg-type]

    @classmethod
    def strictest(cls, several: Iterable[Flags]) -> Flags:
        """Return the strictest of each flag: true before undeclared before false."""
        rows = list(zip(*map(_flags_of, several), strict=True))
        values = (True if True in row else None if None in row else False for row in rows)
        return cls.from_mapping(dict(zip(FLAG_NAMES, values, strict=False)))

    def get(self, name: str) -> bool | None:
        """Return the flag called `name` (a name of `FLAG_NAMES`)."""
        if name not in FLAG_NAMES:
            raise KeyError(name)
        value: bool | None = getattr(self, name)
        return value

    def standing(self, name: str) -> Standing:
        """Return on what the flag called `name` rests."""
        if self.get(name) is None:
            return "unknown"
        return "proven" if name in self.proven else "declared"

    def ground(self, name: str) -> str:
        """Return what the flag called `name` rests on in particular; "" where nobody says."""
        return dict(self.grounds).get(name, "")

    def to_json(self) -> dict[str, bool | None]:
        """Return the five flags by name."""
        return dict(zip(FLAG_NAMES, _flags_of(self), strict=True))


_flags_of = attrgetter(*FLAG_NAMES)


@dataclass(frozen=True, slots=True, kw_only=True)
class CapabilityDetail:
    """What is loaded only when a capability's full text is shown.

    Attributes:
        schema: The JSON Schema of its input, if it has one.
        content: Its full text, such as the body of a SKILL.md.
    """

    schema: Mapping[str, Any] | None = None
    content: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Capability:
    """One thing that the gateway can offer to a model.

    Attributes:
        id: ``{kind}:{name}`` unless its source says otherwise; unique.
        kind: tool, skill, extension, channel, connector, resource, prompt, card, or a word of the
            plugin's own: 1 to 32 lower-case letters, digits, ``_`` and ``-``, a letter first.
        name: The name within its kind.
        display_name: The name for people.
        description: What it does, in a sentence or two.
        category: One word or two, such as ``communication``.
        tags: Words that it is found by.
        examples: Messages that ask for it, as people would write them; see `checked_examples`.
            It is found by them, and no model reads them.
        parameters: Names of what it takes as input, in the order of its schema.
        parameter_texts: What its schema says of each of them; as long as `parameters`, or empty.
        required_secrets: Names of secrets without which it does not work.
        required_tools: Names of tools without which it does not work.
        available: Whether all that it requires is there.
        has_side_effects: Whether using it changes anything.
        flags: The five statements about what it does.
        source_ref: Where it was declared, for people.
        whose: Who wrote its words: ``own`` for hookgate, the operator and the embedding program;
            ``plugin`` for what the code of an installed plugin says of itself; ``foreign`` for
            anybody else. Whoever reads foreign words is tainted by them.
        load: Returns the full schema and text; called off the event loop. What it returns
            is remembered with the row: one whose text has changed is brought again.
    """

    id: str
    kind: CapabilityKind
    name: str
    display_name: str = ""
    description: str = ""
    category: str = ""
    tags: tuple[str, ...] = ()
    examples: tuple[str, ...] = ()
    parameters: tuple[str, ...] = ()
    parameter_texts: tuple[str, ...] = ()
    required_secrets: tuple[str, ...] = ()
    required_tools: tuple[str, ...] = ()
    available: bool = True
    has_side_effects: bool = False
    flags: Flags = field(default_factory=Flags)
    source_ref: str = ""
    whose: Whose = "foreign"
    load: Callable[[], CapabilityDetail] | None = field(default=None, compare=False)

    @property
    def taint(self) -> Taint:
        """What taints whoever reads its words; nothing where they are not foreign."""
        return frozenset({self.id}) if self.whose == "foreign" else CLEAN


class ExamplesError(ValueError):
    """Example messages that cannot be kept.

    Attributes:
        found: What was found.
        expected: What should stand there.
        number: Which example is wrong, from 0; None where it is all of them together.
    """

    def __init__(self, found: str, expected: str, number: int | None = None) -> None:
        super().__init__(f"found {found}, expected {expected}")
        self.found, self.expected, self.number = found, expected, number


def checked_examples(examples: object) -> tuple[str, ...]:
    """Return example messages as they are kept: each once, its white space as single spaces.

    Raises:
        ExamplesError: They are too many, or one of them is no text of 1 to `EXAMPLE_CHARS`
            characters that can be printed.
    """
    if isinstance(examples, str) or not isinstance(examples, Iterable):
        raise ExamplesError(f"the examples {_shown(examples)}", "a list of messages")
    kept: dict[str, None] = {}
    for number, example in enumerate(examples):
        text = " ".join(example.split()) if isinstance(example, str) else ""
        if not text or not text.isprintable():
            expected = "a message in characters that can be printed"
            raise ExamplesError(f"the example {_shown(example)}", expected, number)
        if len(text) > EXAMPLE_CHARS:
            expected = f"at most {EXAMPLE_CHARS}"
            raise ExamplesError(f"an example of {len(text)} characters", expected, number)
        kept[text] = None
    if len(kept) > EXAMPLES:
        expected = f"at most {EXAMPLES}: keep those that differ most"
        raise ExamplesError(f"{len(kept)} examples", expected)
    return tuple(kept)


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def least_own(*whose: Whose) -> Whose:
    """Return whose a text is that is made of several: foreign words make all of it foreign."""
    return "foreign" if "foreign" in whose else "plugin" if "plugin" in whose else "own"


def parameters_of(schema: Mapping[str, Any] | None) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the names of what a schema asks for, and what it says of each.

    Args:
        schema: The JSON Schema of an object; anything else has no parameters.
    """
    properties = schema.get("properties") if isinstance(schema, Mapping) else None
    if not isinstance(properties, Mapping):
        return (), ()
    texts = [
        said.get("description", "") if isinstance(said, Mapping) else ""
        for said in properties.values()
    ]
    return tuple(properties), tuple(text if isinstance(text, str) else "" for text in texts)


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """A selector's choice of one capability.

    Attributes:
        id: The capability's id.
        score: How well it fits; compared within one kind only. The best score per id counts.
        reason: Why, for people.
        forced: Chosen whatever the score: past thresholds, within budgets. It says nothing of
            what fits the message.
    """

    id: str
    score: float
    reason: str = ""
    forced: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Triggers:
    """When a card applies.

    Attributes:
        router_tags: Any of these tags on the turn selects the card.
        keywords: Words that count towards its score.
        session_types: ``main`` (a person's) and ``isolated`` (nested or scheduled).
        confidence_threshold: The least score, 0 to 1; at the default one keyword is enough.
        tools: Tool names after whose use it applies.
        flags: Flags of a tool after whose use it applies.
        inject_at: ``bootstrap``, ``mid`` or ``post_tool``.
    """

    router_tags: tuple[str, ...] = ()
    keywords: tuple[str, ...] = ()
    session_types: tuple[str, ...] = ("main", "isolated")
    confidence_threshold: float = 0.6
    tools: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()
    inject_at: tuple[str, ...] = ("bootstrap", "mid")


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """A short text that makes a model aware of a capability when it is needed.

    Attributes:
        id: The capability id that the card speaks of; unique among cards.
        name: The name for people.
        description: One line.
        text: The body; the only part that reaches a model, after `sanitize_card`.
        triggers: When it applies.
        priority: 0 to 20; higher goes first.
        max_chars: The longest text that is injected, in characters.
        token_budget: The most tokens that it may take.
        origin: Whose it is.
        trusted: Whether medium findings warn instead of rejecting.
        source_ref: Where it was declared, for people.
    """

    id: str
    name: str = ""
    description: str = ""
    text: str
    triggers: Triggers = field(default_factory=Triggers)
    priority: int = 5
    max_chars: int = 2400
    token_budget: int = 600
    origin: CardOrigin = "plugin"
    trusted: bool = False
    source_ref: str = ""

    @property
    def digest(self) -> str:
        """SHA-256 of all that can influence a model or a sanitizer, as hex."""
        digest = hashlib.sha256()
        for item in fields(self):
            digest.update(f"{item.name}={getattr(self, item.name)!r}\n".encode())
        return digest.hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What a sanitizer found in a text.

    Attributes:
        rule: The rule's name.
        severity: low, medium or high.
        start: Offset of the first character.
        end: Offset behind the last one.
        note: Why, for people.
    """

    rule: str
    severity: Severity
    start: int = 0
    end: int = 0
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rejected:
    """A sanitizer's answer: this card does not reach a model."""

    reason: str
    findings: tuple[Finding, ...] = ()


def identity(name: str) -> str:
    """Return what all spellings of a name have in common, to compare names by.

    Case, the width of letters, the way in which accents are composed and characters that do not
    show (Unicode's category Cf) tell no names apart: who reads ``Clock`` beside ``clock`` cannot
    know which of them a rule or a grant is about. It is NFKC_Casefold of Unicode, near enough
    (The Unicode Standard, section 3.13).
    """
    if name.isascii():
        return name.lower()
    shown = "".join(one for one in name if unicodedata.category(one) != "Cf")
    folded = unicodedata.normalize("NFKC", shown).casefold()
    return unicodedata.normalize("NFKC", folded)
