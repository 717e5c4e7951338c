"""Posts of platforms: checked before they are read, committed before they are acknowledged."""
