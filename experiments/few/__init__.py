"""What works with few labels, by our own recipe."""
