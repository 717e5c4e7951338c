"""Tells models what there is, in the turns that need it."""
