"""What an operator sees: the log, and what the gateway is made of."""
