"""What goes over the wire: JSON-RPC frames, REST, server-sent events, and what waits to go out."""
