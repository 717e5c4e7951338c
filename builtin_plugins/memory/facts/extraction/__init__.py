"""Reading facts out of plain sentences, with no model: by patterns, which are data."""
