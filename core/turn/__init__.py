"""A turn from its request to its end, and the only ways to a model and to a tool."""
