"""What is known from what was said: facts, with when they held and when they were learned."""
