"""Asking people, and what stands of their answers: questions, grants, pins."""
