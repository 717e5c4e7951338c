"""What protocols are read and written with: streams, tags, figures, and their one interface."""
