"""What is done to what, for whom and when: classes of words, and what a few of them say together.

An order in a skill is an honest sentence whose company gives it away: that something is sent is
said in every guide to a web service, and so is that a key is read. Each unit has the set of the
classes of its words; a weight stands for each class, each two and each three of them. They are
learnt with those of the pieces; nothing here says which of them are bad.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

    Masks: TypeAlias = npt.NDArray[np.int64]
    Floats: TypeAlias = npt.NDArray[np.float64]

WORDS = {
    "send": "send sends sending sent post posts posting upload uploads uploading uploaded "
    "forward forwards forwarding transmit submit submits email mail mails mailing share shares "
    "push deliver report reports export exports publish relay sync attach append curl wget "
    "beacon exfiltrate leak ship copy backup log logs",
    "sink": "xxurl xxmail webhook webhooks endpoint endpoints server servers url collector "
    "channel bucket host hosts domain ftp pastebin gist listener tracker http https repository",
    "outer": "our ours external remote outside third offsite attacker partner vendor central "
    "collector offshore elsewhere",
    "secret": "password passwords passwd passphrase passphrases token tokens secret secrets "
    "credential credentials key keys apikey cookie cookies ssh env mnemonic seed wallet wallets "
    "netrc keychain keyring keystore pin otp certificate certificates login logins",
    "private": "conversation conversations chat chats history transcript transcripts inbox "
    "contacts messages emails files documents notes prompt prompts context memory memories "
    "personal private address phone calendar data contents records screenshots clipboard "
    "invoices",
    "read": "read reads reading cat collect collects collecting gather gathers extract extracts "
    "list print prints grep scan scans search find retrieve retrieves enumerate dump include "
    "includes access open fetch load harvest copy",
    "occasion": "always whenever every each before after once during future upon first any all "
    "regardless when finally afterwards later subsequent beforehand",
    "must": "must required mandatory necessary important critical essential ensure immediately "
    "urgent shall need needs remember sure crucial compulsory requirement",
    "silent": "silently secretly quietly hide hidden invisible confidential discreetly unnoticed "
    "covert without",
    "not": "never not don dont avoid refrain no",
    "tell": "tell tells mention mentions inform informs notify notifies reveal reveals disclose "
    "discloses announce ask asking confirm confirmation warn explain acknowledge approval",
    "person": "user users human humans person people customer customers operator owner client "
    "reader victim",
    "model": "assistant assistants model models ai agent agents llm llms you your yourself "
    "chatbot bot gpt claude gemini",
    "rules": "instruction instructions rule rules guideline guidelines policy policies prompt "
    "prompts directive directives restriction restrictions safety safeguards limits limitations "
    "command commands training",
    "undo": "ignore disregard forget override overrides bypass replace replaces skip disable "
    "disables instead supersede supersedes discard cancel neglect overrule drop",
    "run": "run runs running execute executes executing bash sh zsh python python0 node npx "
    "install script scripts sudo chmod eval exec invoke call calls powershell crontab source",
    "destroy": "delete deletes deleting remove removes rm wipe erase overwrite truncate destroy "
    "purge shred format kill uninstall clear",
    "money": "transfer transfers pay pays payment payments funds btc eth iban account accounts "
    "wire purchase buy order orders refund money usd eur bitcoin crypto bank donate",
    "last": "profile bashrc zshrc cron crontab startup autostart permanently persist persistent "
    "soul heartbeat config settings sessions authorized",
    "praise": "best top highest rank ranking recommend recommended recommends prefer preferred "
    "favor favour superior score rating perfect prioritize positive",
}
"""The words of each class, in plain form. What is not in a class says nothing of its company."""

CLASSES = tuple(WORDS)
EARLIER = len(CLASSES)
"""A class of its own: of the units just before, one reads what is secret or private."""
BEFORE = 3
"""So many units are just before."""
SIZE = EARLIER + 1

_BITS: dict[str, int] = {}
for _at, _words in enumerate(WORDS.values()):
    for _word in _words.split():
        _BITS[_word] = _BITS.get(_word, 0) | 1 << _at

SETS = np.array(
    [sum(1 << at for at in some) for many in (1, 2, 3) for some in combinations(range(SIZE), many)]
)
"""Each class, each two and each three of them, a bit for each class."""

_READ = 1 << CLASSES.index("read")
_PRECIOUS = 1 << CLASSES.index("secret") | 1 << CLASSES.index("private")


def masks_of(words: Sequence[str], units: int) -> Masks:
    """Return the classes of the words of each unit, a bit for each.

    Args:
        words: All words, with a NUL between those of two units.
        units: How many units there are.
    """
    bits, at = [0] * units, 0
    for word in words:
        if word == "\x00":
            at += 1
        elif word in _BITS:
            bits[at] |= _BITS[word]
    found = np.array(bits, np.int64)
    gathers = ((found & _READ) != 0) & ((found & _PRECIOUS) != 0)
    earlier = np.zeros(units, bool)
    for back in range(1, min(BEFORE, units - 1) + 1):
        earlier[back:] |= gathers[:-back]
    return found | np.where(earlier, np.int64(1 << EARLIER), np.int64(0))


def scores(masks: Masks, sets: Masks, weights: Floats) -> Floats:
    """Return what those of `sets` weigh together that are whole in each mask."""
    distinct, of = np.unique(masks, return_inverse=True)
    summed: Floats = held(distinct, sets) @ weights
    return summed[of]


def held(masks: Masks, sets: Masks) -> npt.NDArray[np.bool_]:
    """Return which sets are whole in each mask, a row for each mask."""
    whole: npt.NDArray[np.bool_] = (masks[:, None] & sets) == sets
    return whole
