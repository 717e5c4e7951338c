"""Hosted channels: webhooks and polling, turns, deliveries, approvals."""
