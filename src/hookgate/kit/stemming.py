"""Stems of English words: what "painting" and "painted" have in common."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from contextlib import suppress
from functools import cache, lru_cache, partial
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import Any

__all__ = ["STEM_CHARS", "stems"]

STEM_CHARS = 40
"""A longer word is its own stem: the stemmer's time grows with the square of the length."""


def stems(words: Iterable[str]) -> list[str]:
    """Return the stems of folded words (Porter's second stemmer for English).

    A number is its own stem, as is what has two letters, and would take the place of a word among
    those that are kept.
    """
    return [
        _stem(word) if 2 < len(word) <= STEM_CHARS and not word.isdigit() else word
        for word in words
    ]


@lru_cache(maxsize=65_536)
def _stem(word: str) -> str:
    # A stemmer keeps the word that it works on, so each call has one of its own: threads
    # search at the same time. The cache makes that rare.
    found: str = _english()().stemWord(word)
    return found


@cache
def _english() -> Any:
    """Return what makes stemmers for English.

    The package loads its stemmers of 35 languages when it is imported, which took a twentieth of a
    gateway's start; so the one module is loaded below a name of its own, as part of a package that
    is nothing but the place where these modules are.
    """
    found = find_spec("snowballstemmer")
    if found is not None and found.submodule_search_locations and find_spec("Stemmer") is None:
        package = ModuleType(f"{__name__}.snowball")
        package.__path__ = list(found.submodule_search_locations)
        sys.modules[package.__name__] = package
        with suppress(ImportError, AttributeError):
            return import_module(f"{package.__name__}.english_stemmer").EnglishStemmer
    import snowballstemmer  # type: ignore[import-untyped]  # it has no types

    return partial(snowballstemmer.stemmer, "english")
