"""The tables and figures of DATNet."""
