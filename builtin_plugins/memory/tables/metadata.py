"""What all tables of memory belong to."""

from __future__ import annotations

from pathlib import Path

from sqlalchemy import MetaData

__all__ = ["METADATA", "SCRIPTS"]

METADATA = MetaData()

SCRIPTS = Path(__file__).parents[1] / "migrations"
