"""What tests share: a provider that follows a script, and gateways made of small plugins."""
