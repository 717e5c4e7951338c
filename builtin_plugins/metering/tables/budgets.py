"""The tables of budgets: what is used of each window, who has leased what of it, and for whom."""

from __future__ import annotations

from sqlalchemy import BigInteger, Boolean, Column, Index, MetaData, Table, Text, false

METADATA = MetaData(info={"complete": True})
"""Of all tables of metering."""

WINDOWS = Table(
    "metering_window",
    METADATA,
    # NAME/SUBJECT/WINDOW, such as daily/agent:main/day:2026-11-22.
    Column("key", Text, primary_key=True),
    # False where an amount counts only while a call runs.
    Column("lasting", Boolean, nullable=False),
    # What calls have used.
    Column("settled", BigInteger, nullable=False),
    # The sum of this window's rows of `metering_lease`.
    Column("leased", BigInteger, nullable=False),
    # What calls could have used that a crash has cut off.
    Column("lost", BigInteger, nullable=False),
    # How often gateways were asked to give back what they do not hold.
    Column("asked", BigInteger, nullable=False),
    # When it was last written: seconds since 1970, by the clock of who wrote.
    Column("touched", BigInteger, nullable=False),
    Index("metering_window_by_touched", "touched"),
)

LEASES = Table(
    "metering_lease",
    METADATA,
    Column("gateway", Text, primary_key=True),
    Column("key", Text, primary_key=True),
    Column("amount", BigInteger, nullable=False),
    # Up to which `metering_window.asked` this gateway has given back what it does not hold.
    Column("answered", BigInteger, nullable=False),
    Index("metering_lease_by_key", "key"),
)

GATEWAYS = Table(
    "metering_gateway",
    METADATA,
    # One run of a gateway.
    Column("gateway", Text, primary_key=True),
    # Another number with each write of that gateway.
    Column("beat", BigInteger, nullable=False),
    # Whether each of its calls has a row of `metering_open`. One that keeps none is charged all
    # that it had leased: nobody can know what its calls have used.
    Column("opens", Boolean, nullable=False, server_default=false()),
)

OPEN = Table(
    "metering_open",
    METADATA,
    # A call that may have been sent, and is not settled in `metering_window`.
    Column("call", Text, primary_key=True),
    Column("gateway", Text, nullable=False),
    # What it holds of each window that lasts, by key, in JSON.
    Column("held", Text, nullable=False),
    # Its row of the ledger, in JSON, should it never come to one of its own.
    Column("row", Text, nullable=False),
    Index("metering_open_by_gateway", "gateway"),
)
