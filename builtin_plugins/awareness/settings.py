"""The settings of awareness: ``[plugin.awareness]``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from hookgate import ModelRef, Section


def _model(text: str) -> str:
    if text:
        ModelRef.parse(text)
    return text


class KillSwitchSettings(Section):
    """``[plugin.awareness.kill_switch]``: when cards turn themselves off."""

    enabled: bool = True
    """Whether cards turn themselves off at all."""
    threshold: float = Field(default=0.30, ge=0, le=1)
    """The share of turns with a card above which cards are turned off."""
    window_hours: float = Field(default=24.0, gt=0, le=24 * 31)
    """The hours that are looked back on."""
    samples: int = Field(default=50, ge=1, le=1_000_000)
    """Fewer turns than this say nothing."""


class RecordSettings(Section):
    """``[plugin.awareness.records]``: the file ``awareness/turns.jsonl`` in `home`."""

    enabled: bool = True
    """Whether it is written. Without it the window of the kill switch begins at each start."""
    max_bytes: int = Field(default=10_000_000, ge=10_000, le=10_000_000_000)
    """It is put aside before it grows past this."""
    keep: int = Field(default=3, ge=0, le=100)
    """So many files that were put aside are kept: ``turns.jsonl.1`` is the newest."""


class ProfileSettings(Section):
    """``[plugin.awareness.profiles.NAME]``: which cards some agents get, and how much of them."""

    cards: tuple[str, ...] = ("*",)
    """Globs of the ids of cards that may be shown; all others are withheld."""
    budget: int | None = Field(default=None, ge=0, le=100_000)
    """Tokens of all cards of a turn, where it differs from `budget` of the plugin."""


class AgentAwareness(Section):
    """``[plugin.awareness.agents.NAME]``: the cards of one agent."""

    capability_profile: str = ""
    """The name of its profile; "" for every card."""
    force_include: tuple[str, ...] = ()
    """Ids of cards that each of its turns shows, within the budget."""


class RemoteCard(Section):
    """``[[plugin.awareness.sources]]``: a card that is fetched by HTTP."""

    url: str = Field(pattern=r"^https?://[^\s@/?#]+([/?#]\S*)?$", max_length=2000)
    """Where the card file is. It is shown in lists and logs: no user name stands in it."""
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")
    """The digest of the file, in hex. A file of another digest is not used."""


class AwarenessSettings(Section):
    """``[plugin.awareness]``: which cards there are, and when a model sees them."""

    enabled: bool = True
    """Whether cards are shown; `hookgate reload` takes a change over at once."""
    budget: int = Field(default=1500, ge=0, le=100_000)
    """Tokens of all cards of one turn: each started four characters are one."""
    dirs: tuple[Path, ...] = ()
    """More folders of cards. They are the operator's, and trusted."""
    allow_workspace_cards: bool = False
    """Whether cards in `.hookgate/cards` of the folder in which the gateway was started are
    read, once `hookgate workspace accept` has accepted them. They are not trusted."""
    allow_user_capabilities: bool = False
    """Whether cards in `user-capabilities` of `home` are read. They are not trusted."""
    sources: tuple[RemoteCard, ...] = ()
    """Cards that are fetched by HTTP. They are not trusted, and pinned by their digest."""
    reference_dirs: tuple[Path, ...] = ()
    """More folders of pages for the tool `read_reference`."""
    tags: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    """Router tags with their keywords, in place of the shipped ones of the same name; an empty
    list switches a tag off."""
    meaning: bool = True
    """Whether messages are tagged by their meaning, too, where there is an embedder."""
    force_include: tuple[str, ...] = ()
    """Ids of cards that every turn shows: past threshold and kind of session, within budget."""
    exclude: tuple[str, ...] = ()
    """Ids of cards that no turn shows; it wins over everything else."""
    profiles: dict[str, ProfileSettings] = Field(default_factory=dict)
    """Sets of cards by name. `minimal` is there already."""
    agents: dict[str, AgentAwareness] = Field(default_factory=dict)
    """The cards of single agents, by the agent's name."""
    selector: Literal["rules", "model", "none"] = "rules"
    """Who chooses cards: tags and keywords; a model that is asked; or other plugins alone."""
    selector_model: Annotated[str, AfterValidator(_model)] = ""
    """The model that chooses, as `provider/model`; the agent's own where it is empty."""
    pin: Literal["note", "strict"] = "note"
    """What becomes of a card that has changed since it was approved: it is used and named, or
    it waits for `hookgate accept give card ID`."""
    pointer: bool = True
    """Whether the context holds two sentences that name the tools which tell more."""
    keep_days: float = Field(default=7.0, ge=0, le=3650)
    """Days for which the file of a session's cards is kept."""
    watch: bool = True
    """Whether the folders are watched, and read again when something in them changes."""
    debounce_ms: int = Field(default=500, ge=10, le=60_000)
    """The longest time for which a burst of changes is gathered, in milliseconds."""
    kill_switch: KillSwitchSettings = Field(default_factory=KillSwitchSettings.by_default)
    """When cards turn themselves off."""
    records: RecordSettings = Field(default_factory=RecordSettings.by_default)
    """The file of decisions."""
