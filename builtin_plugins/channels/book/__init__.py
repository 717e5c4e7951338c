"""What channels keep in the store: events, deliveries, leases."""
