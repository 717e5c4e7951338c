"""Notes that a model keeps for the one it talks with."""
