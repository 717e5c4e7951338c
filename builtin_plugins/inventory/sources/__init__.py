"""Where records come from: one source for each runtime."""
