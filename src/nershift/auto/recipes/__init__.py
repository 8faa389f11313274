"""A file for each recipe that `nershift fit` may choose."""
