from __future__ import annotations

import pytest

from hookgate.builtin_plugins.policy.rules.profiles import suggest
from hookgate.core.domain.descriptors import FLAG_NAMES

PURE = dict.fromkeys(FLAG_NAMES, False)
SENDS = {**PURE, "sends_externally": True}
RUNS = {**PURE, "executes_privileged": True}
SILENT = dict.fromkeys(FLAG_NAMES, None)
OPEN = {**PURE, "reads_external_data": None}


@pytest.mark.parametrize(
    ("tools", "profile", "said"),
    [
        ({}, "balanced", ()),
        (
            {"clock": PURE, "notes": {**PURE, "writes_persistent_state": True}},
            "balanced",
            ("No tool",),
        ),
        ({"clock": PURE, "mail": SENDS}, "balanced", ("mail can send",)),
        ({"a": PURE, "b": PURE, "c": SILENT}, "balanced", ("c do not declare",)),
        ({"a": PURE, "b": PURE, "c": OPEN}, "balanced", ("c do not declare",)),
        ({"a": PURE, "b": SILENT}, "strict", ("b do not declare",)),
        ({"shell": RUNS, "mail": SENDS}, "strict", ("shell run commands",)),
    ],
)
def test_the_profile_follows_from_what_tools_declare(
    tools: dict[str, dict[str, bool | None]], profile: str, said: tuple[str, ...]
) -> None:
    found = suggest(tools)
    assert found.profile == profile
    assert len(found.reasons) == len(said)
    assert all(reason.startswith(start) for reason, start in zip(found.reasons, said, strict=True))


def test_many_tools_are_counted_and_not_all_named() -> None:
    found = suggest({f"t{number}": SILENT for number in range(9)})
    assert found.reasons == ("t0, t1, t2, t3, t4 and 4 more do not declare all of what they do.",)
