"""The gateway as a service of its machine: its sockets, its manager, and who takes over from it."""
