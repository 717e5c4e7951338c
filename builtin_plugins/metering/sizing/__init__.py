"""How large a call may be: what is reserved of its input, and how much it may write."""
