"""When two names are one: as people and models read them."""

from __future__ import annotations

import unicodedata

__all__ = ["identity"]


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
