"""Sending what is to be said: in the order of each peer, again where it fails."""
