"""What was said, found again: the words of a query, the ranking of turns, their packing."""
