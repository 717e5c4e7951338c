"""Whether cards are on, and the record of the turns that decides it."""
