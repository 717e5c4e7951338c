"""Channels: what one can say, and what one brings in while the gateway holds its connection."""
