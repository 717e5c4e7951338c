"""What the tables of the plugin ``metering`` have in common."""

from __future__ import annotations

from sqlalchemy import MetaData

METADATA = MetaData(info={"complete": True})
