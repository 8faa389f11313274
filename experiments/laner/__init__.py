"""The tables and figures of LANER."""
