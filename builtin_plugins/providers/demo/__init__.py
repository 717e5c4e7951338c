"""The demo provider, and the fixed rules that it answers by."""
