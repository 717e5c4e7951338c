"""What is kept for clients for a while: responses that they ask for again."""
