"""The settings of the schedules: ``[plugin.schedules.jobs.NAME]``."""

from __future__ import annotations

from datetime import timedelta
from difflib import get_close_matches
from typing import Annotated, Literal

from pydantic import Field, StringConstraints, model_validator

from hookgate import Address, HookgateError, Host, Problem, Section
from hookgate.builtin_plugins.schedules.timing import Timing
from hookgate.channels import is_guest_channel
from hookgate.kit.durations import Seconds

DAY = 86_400.0

SILENCE = "HEARTBEAT_OK"
"""What a lean run answers where nothing is up."""

LEAN_TOKENS = 200
LEAN_CHARS = 500
"""The longest text of a lean run, so that it fits with the words about silence."""

OWN = frozenset(("schedule",))
"""The channels in which a schedule's session is its own, and no person's."""

Name = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$")]


class JobSettings(Section):
    """``[plugin.schedules.jobs.NAME]``: a turn that is started by the clock."""

    cron: str = Field(default="", max_length=200)
    """When, as a line of cron with five fields: `0 8 * * 1-5` is at eight from Monday to Friday.
    Either this or `every`."""
    every: Seconds | None = Field(default=None, ge=1, le=366 * DAY)
    """When, as a length of time such as `30m`, counted from midnight UTC of 1970-01-01."""
    zone: str = "UTC"
    """The time zone of `cron`, such as `Europe/Berlin`."""
    jitter: Seconds = Field(default=0, ge=0, le=DAY)
    """A run begins so much later at most, by chance; never past half of the way to the next."""
    text: str = Field(min_length=1, max_length=100_000)
    """The message."""
    agent: str | None = None
    """The agent. Without it: the one that the bindings choose for the address."""
    channel: str = Field(default="schedule", min_length=1)
    """The channel of the session. The answer is sent by it, where there is one of this name."""
    account: str = Field(default="local", min_length=1)
    """The account of the session."""
    peer: str = ""
    """The peer of the session; the schedule's name where it is empty."""
    deliver: bool = True
    """Whether the answer is sent by the channel, beside being kept in the session."""
    deliver_by: str = ""
    """The channel that sends the answer to `account` and `peer`, where it is not `channel`: one of
    the sandbox (`wasm.NAME`) sends what a schedule says, and has no session of one."""
    quiet: str = Field(default="", max_length=100)
    """An answer that is this word alone is not sent, such as `HEARTBEAT_OK`."""
    heartbeat: bool = False
    """Whether what it costs is counted as `heartbeat`, and not as `schedule`."""
    lean: bool = False
    """Whether the model hears the message and the agent's soul alone, 200 tokens at most: no
    history, nothing that is remembered or discovered, and no tools but `tools`. What it costs is
    counted as `heartbeat`, and an answer that is `quiet`, else `HEARTBEAT_OK`, is not sent."""
    tools: tuple[str, ...] = ()
    """`lean`: the names of tools that it may call, whose words come on top of the 200 tokens."""
    missed: Literal["skip", "once"] = "skip"
    """What becomes of runs that were missed: nothing, or the last one of them is made up for."""
    grace: Seconds = Field(default=60, ge=1, le=DAY)
    """A run that could not begin so long after its time is a missed one."""
    on_crash: Literal["leave", "again"] = "leave"
    """What becomes of a run whose gateway has stopped in the middle: nothing, or it is run
    once more."""
    deadline: Seconds = Field(default=600, gt=0, le=7 * DAY)
    """A run that takes longer is cancelled; `turn.deadline_seconds` holds as well."""
    enabled: bool = True
    """Whether it runs."""

    @model_validator(mode="after")
    def _has_a_time(self) -> JobSettings:
        if bool(self.cron) == (self.every is not None):
            raise ValueError("expected either `cron` or `every`, and not both")
        self.timing.check()
        if self.tools and not self.lean:
            raise ValueError("found `tools`, which is for `lean` alone: rules say what others call")
        if self.lean and len(self.text) > LEAN_CHARS:
            raise ValueError(
                f"found a text of {len(self.text)} characters, expected at most {LEAN_CHARS} where "
                "it is `lean`: say it shorter, or leave `lean` out"
            )
        if is_guest_channel(self.channel):
            raise ValueError(
                f"found the channel {self.channel!r}, in whose sessions nobody speaks but who "
                "writes in it, expected another one, and this one as `deliver_by`"
            )
        return self

    @property
    def timing(self) -> Timing:
        """When it is due."""
        every = None if self.every is None else timedelta(seconds=self.every)
        return Timing(cron=self.cron, every=every, zone=self.zone)

    @property
    def plan(self) -> str:
        """When it is due, in words; another plan begins when it is first seen."""
        return str(self.timing) if self.enabled else "off"

    @property
    def silence(self) -> str:
        """The answer that is not sent; "" for none."""
        return self.quiet.strip() or (SILENCE if self.lean else "")

    @property
    def message(self) -> str:
        """What the model is told."""
        if not self.lean or self.silence.casefold() in self.text.casefold():
            return self.text
        return f"{self.text}\n\nIf nothing needs attention, answer {self.silence} and nothing else."

    def address(self, name: str) -> Address:
        """Return whose session it is."""
        return Address(self.channel, self.account, self.peer or name)


class SchedulesSettings(Section):
    """``[plugin.schedules]``: turns that are started by the clock."""

    jobs: dict[Name, JobSettings] = Field(default_factory=dict)
    """Schedules by name."""


def _nobodys(here: str, name: str, job: JobSettings) -> list[Problem]:
    """Return what a job leaves out that says which person's session it is, or who hears of it."""
    if job.channel in OWN and not job.deliver_by:
        return []
    where = job.deliver_by or job.channel
    # Of the commands' own channel the account is known; each other one has accounts of its own.
    needed = ("peer",) if where == "cli" else ("account", "peer")
    lack = [key for key in needed if key not in job.model_fields_set or not getattr(job, key)]
    if not lack:
        return []
    keys = " and ".join(f"`{key}`" for key in lack)
    address = job.address(name)
    said = f"{address.account!r} and {address.peer!r}"
    return [
        Problem(
            key=here,
            found=f"a job for {where!r} without {keys}, so for account and peer {said}, where "
            "nobody is",
            expected=f"{keys} of the session that the person is in: the second last and the last "
            "part of its key in `hookgate sessions list`",
        )
    ]


def lacking(settings: SchedulesSettings, host: Host) -> list[Problem]:
    """Return the jobs that nobody would answer."""
    found: list[Problem] = []
    for name, job in settings.jobs.items():
        here = f"plugin.schedules.jobs.{name}"
        found += _nobodys(here, name, job)
        if job.agent is not None:
            known = sorted(host.settings.agents)
            if known and job.agent not in known:
                near = get_close_matches(job.agent, known, n=1)
                found.append(
                    Problem(
                        key=f"{here}.agent",
                        found=f"the agent {job.agent!r}, which there is not",
                        expected=f"one of {', '.join(known)}",
                        nearest=near[0] if near else None,
                    )
                )
            continue
        address = job.address(name)
        try:
            host.route(address)
        except HookgateError as error:
            found.append(
                Problem(
                    key=here,
                    found=f"a job that no agent answers: {error}",
                    expected="`agent` in it, a [[bindings]] entry for its channel, account and "
                    "peer, or `default_agent`",
                )
            )
    return found
