"""What counts once somebody has accepted it, as it is now: tools, cards, guests of the sandbox.

Whoever needs it asks ``await acceptances_of(host)``: all plugins of a gateway share one, which
they find at ``host[ACCEPTANCES]`` from then on, and all gateways on one store know the same.
"""
