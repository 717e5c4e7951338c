"""The operations of the gateway itself: turns, sessions, tools, plugins, events, tokens."""
