"""What a model gets to see of what was found: tiers within budgets."""
