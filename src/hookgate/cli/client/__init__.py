"""Ways to a gateway: one in this process, one that runs elsewhere, and where that is."""
