"""From a message that came in to a turn, and from its answer to what is to be said."""
