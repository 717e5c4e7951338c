"""What a sentence claims, before it is known whom it speaks of."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal


@dataclass(frozen=True, slots=True)
class Ref:
    """Whom or what a statement speaks of.

    Attributes:
        kind: `speaker` says I; `listener` is spoken to; `role` is somebody's (`my dog`), of
            `owner`; `name` goes by a name; `pronoun` was spoken of before; `last` is what was
            learned last.
        text: The role, the name or the pronoun.
        owner: Whose role it is.
    """

    kind: Literal["speaker", "listener", "role", "name", "pronoun", "last"]
    text: str = ""
    owner: Ref | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Assertion:
    """Something that a sentence says of somebody.

    Attributes:
        subject: Of whom.
        relation: Of ``relations.toml``, or a role; "" where a correction leaves it open.
        value: What; "" where it has no name yet.
        mode: `holds`; `ended`, it did and does no more; `never`, it does not and did not.
        correction: Whether it takes the place of what was said before, which was wrong.
        confidence: How surely the words say so, from 0 to 1.
        valid_from: Since when it holds, in UTC; None where nobody said.
        valid_to: Until when; None where it goes on or nobody said.
        dated: The time in words, as precise as it was said: `since 2019`.
        ends_value: The other value of a relation that ends by this.
        instead_of: The value that this is a correction of.
        known: Whether it says something only of what is known already.
        pattern: The name of the pattern that found it.
    """

    subject: Ref
    relation: str
    value: str
    mode: Literal["holds", "ended", "never"] = "holds"
    correction: bool = False
    confidence: float = 0.9
    valid_from: datetime | None = None
    valid_to: datetime | None = None
    dated: str = ""
    ends_value: str = ""
    instead_of: str = ""
    known: bool = False
    pattern: str = ""
