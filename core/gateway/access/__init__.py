"""Who may come in: Host, Origin, proxies, credentials and how often they may be wrong."""
