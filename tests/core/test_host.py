"""What operators are told of parts, and taken back."""

from __future__ import annotations

from tests.support.script import gateway

SECRET = "sk-live-abcdefghijklmnop"


async def test_a_part_whose_name_holds_a_secret_recovers_and_is_withdrawn() -> None:
    async with gateway() as gate:
        host = gate.host
        host.secrets.register(SECRET)
        part = f"cards of https://cards.example/{SECRET}"
        host.standing(part).bad("it does not answer")
        host.standing(part).note("it has changed")
        masked = host.secrets.redact(part)
        assert masked in host.degraded
        assert masked in host.notices
        assert SECRET not in repr((host.degraded, host.notices))
        host.standing(part).good()
        host.standing(part).note("")
        assert masked not in host.degraded
        assert masked not in host.notices
