"""`nershift fit`: from labels, sources, text and time to the best tagger for them."""
