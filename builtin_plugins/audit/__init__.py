"""Records every decision on a tool call, and what the call came to; writes figures to a file."""
