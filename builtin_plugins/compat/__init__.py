"""Other people's clients, unmodified: OpenAI's and Anthropic's wires, guarded."""
