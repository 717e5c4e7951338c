"""Functions that are called with JSON: their types and docstrings say what they take."""
