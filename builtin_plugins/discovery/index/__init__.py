"""What is searched, and how: words, vectors, relations, and how sure a search is."""
