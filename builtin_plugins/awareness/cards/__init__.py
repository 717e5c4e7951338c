"""Cards: where they are read from, what there is, and which of them are pinned."""
