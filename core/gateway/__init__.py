"""What the gateway serves: JSON-RPC over WebSocket, the same over HTTP, and who may come in.

- `app.build_app` makes an aiohttp application of a gateway; it can be mounted.
- `serve.serve` listens, drains and ends.
- `routes.Routes` takes the routes of plugins; each declares its access.
- `operations.core_operations` names what every gateway can be asked to do.

The protocol is described in ``docs/wire.md``.
"""
