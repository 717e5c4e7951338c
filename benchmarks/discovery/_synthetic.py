"""Capabilities made of words, as many as are wanted, and vectors that need no model."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence

import numpy as np

from benchmarks.discovery._vectors import Floats
from hookgate.core.domain.descriptors import Capability, CapabilityDetail

_VERBS = """
    add archive assign book cancel check clone close compare convert copy count create delete
    deploy draw edit export fetch file find format freeze import index invite label list lock
    mark measure merge move open order parse pause pin play plan post print publish query rank
    read rename reply report reset resize restore review rotate run save scan schedule send
    share sign sort split start stop summarize sync tag test track translate update upload
    validate watch write
"""
_NOUNS = """
    account address alarm album alert article asset audio backup badge balance banner batch
    bill board bookmark branch budget build calendar camera campaign card cart case catalogue
    chart clip cluster comment commit contact container contract coupon course currency
    customer dashboard database deal deployment device diagram dictionary directory document
    domain door draft email employee event expense exam feed file filter flight folder forecast
    form forum function game graph group hotel image incident invoice issue job journal key
    kitchen label lamp lead lesson letter library licence link list log loan map meeting member
    memo message metric mirror movie network note notebook notification offer order package
    page parcel password patient payment permission phone photo playlist podcast poll portfolio
    prescription price printer product profile project query queue quote receipt recipe record
    recording refund region release reminder report repository request reservation review robot
    room route schedule schema score script secret sensor server session shift shipment signal
    site sketch song spreadsheet station stock store subscription survey table task team
    template tender thermostat thread ticket timer token topic trace train transaction
    translation trip user vacation vehicle version video visitor volume voucher warehouse
    weather webhook website wiki workflow workspace
"""
_QUALITIES = """
    annual archived assigned basic blocked cheap cold current daily damaged duplicate early
    empty encrypted expired external favourite final foreign free hidden idle important
    internal large late latest legal local locked long lost manual missing mobile monthly
    national nearby new old open overdue paid past pending personal planned popular private
    public raw recent remote rural scheduled shared short signed similar slow small spare
    unpaid unread urgent used weekly
"""
_FIELDS = """
    communication calendar finance travel media health education retail logistics security
    analytics storage home sport weather legal
"""
VERBS, NOUNS, QUALITIES, FIELDS = (words.split() for words in (_VERBS, _NOUNS, _QUALITIES, _FIELDS))

_WORD = re.compile(r"[a-z]+")


def capabilities(count: int, seed: int = 7) -> list[Capability]:
    """Return so many tools; the first ones are the same for every `count`."""
    numbers = random.Random(seed)
    return [_capability(place, numbers) for place in range(count)]


def _capability(place: int, numbers: random.Random) -> Capability:
    verb, noun = numbers.choice(VERBS), numbers.choice(NOUNS)
    quality, other, field = (numbers.choice(words) for words in (QUALITIES, NOUNS, FIELDS))
    description = f"{verb.capitalize()} the {quality} {noun} of a {other} for {field}."
    if numbers.random() < 0.1:
        second = numbers.choice(NOUNS)
        description += f" It can also {numbers.choice(VERBS)} every {second} that belongs to it."
    names = numbers.sample(NOUNS, numbers.randint(1, 4))
    schema = {
        "type": "object",
        "properties": {
            name: {"type": "string", "description": f"The {numbers.choice(QUALITIES)} {name}"}
            for name in names
        },
    }
    return Capability(
        id=f"tool:{verb}_{quality}_{noun}_{place}",
        kind="tool",
        name=f"{verb}_{quality}_{noun}_{place}",
        whose="own",
        description=description,
        category=field,
        tags=(noun, other),
        parameters=tuple(names),
        parameter_texts=tuple(one["description"] for one in schema["properties"].values()),  # type: ignore[attr-defined]  # a literal above
        load=lambda: CapabilityDetail(schema=schema),
    )


def messages(count: int, seed: int = 11) -> list[str]:
    """Return so many messages that each ask for one thing."""
    numbers = random.Random(seed)
    return [
        f"please {numbers.choice(VERBS)} my {numbers.choice(QUALITIES)} {numbers.choice(NOUNS)} "
        f"in the {numbers.choice(NOUNS)} number {place}"
        for place in range(count)
    ]


class WordEmbedder:
    """An `Embedder` whose vectors are means of random ones, one for each word.

    Texts that share words are near each other, so that the vectors lie in clusters, as those
    of a model do.
    """

    dimension = 384
    fingerprint = "words:1"

    def __init__(self) -> None:
        self._words: dict[str, int] = {}
        self._table = np.zeros((0, self.dimension), np.float32)
        self._numbers = np.random.default_rng(5)
        self._known: dict[str, Floats] = {}
        self.texts = 0

    async def embed(self, texts: Sequence[str]) -> Floats:
        self.texts += len(texts)
        return self.vectors(texts)

    async def embed_query(self, text: str) -> Floats:
        if text not in self._known:
            self._known[text] = self.vectors([text])[0]
        return self._known[text]

    def vectors(self, texts: Sequence[str]) -> Floats:
        result = np.empty((len(texts), self.dimension), np.float32)
        for row, text in enumerate(texts):
            result[row] = self._table_of(_WORD.findall(text.casefold())).sum(axis=0)
        result += 1e-3
        result /= np.linalg.norm(result, axis=1, keepdims=True)
        return result

    def _table_of(self, words: Sequence[str]) -> Floats:
        places = [self._words.setdefault(word, len(self._words)) for word in words]
        while len(self._table) < len(self._words):
            more = self._numbers.standard_normal((1024, self.dimension)).astype(np.float32)
            self._table = np.concatenate([self._table, more])
        return self._table[places]
