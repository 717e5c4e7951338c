"""Finds the capabilities that fit what is said or asked for."""
