"""The tables and figures of MetaCross."""
