"""The commands about the gateway itself; those of plugins stand with the plugins."""
