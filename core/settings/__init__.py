"""From a TOML file, the environment and the command line to typed settings and secrets."""
