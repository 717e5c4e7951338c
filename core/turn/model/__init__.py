"""One call of a model: the attempt, its stream, and the answer that it comes to."""
