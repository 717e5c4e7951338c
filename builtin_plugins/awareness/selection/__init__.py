"""Which cards a turn gets: router tags, keywords, nearness, and the budget."""
