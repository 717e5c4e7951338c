"""What the inventory keeps itself: switches, installed skills, and the last good records."""
