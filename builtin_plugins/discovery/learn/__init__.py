"""Learning from use: examples, where they are kept, and how they count."""
