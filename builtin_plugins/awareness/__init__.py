"""Tells models what there is, and keeps text of others from speaking in the gateway's voice."""
