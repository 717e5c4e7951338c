"""What all tables of memory belong to."""

from __future__ import annotations

from pathlib import Path

from sqlalchemy import MetaData

METADATA = MetaData(info={"complete": True})

SCRIPTS = Path(__file__).parents[1] / "migrations"
