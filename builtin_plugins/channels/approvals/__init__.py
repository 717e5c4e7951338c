"""Questions about tool calls, asked and answered in a channel by its listed approvers."""
