"""Writing a file so that whoever reads it finds all of it, or what was there before."""

from hookgate.core.settings.whole_file import write_whole

__all__ = ["write_whole"]
