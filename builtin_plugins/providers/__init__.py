"""Providers of models: Anthropic, everything that speaks OpenAI's protocol, and a demo."""
