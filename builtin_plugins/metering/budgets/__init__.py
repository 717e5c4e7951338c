"""What may still be used: counters with limits, leased in the store and reserved in memory."""
