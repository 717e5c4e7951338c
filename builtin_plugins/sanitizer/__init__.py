"""Cleans and judges text that somebody else wrote, before a model reads it."""
