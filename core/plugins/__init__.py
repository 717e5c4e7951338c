"""Plugins: found, chosen, checked, ordered, loaded and opened."""
