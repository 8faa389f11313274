"""MetaCross (AAAI 2020): pseudo tasks and per-sentence adaptation. See README.md in this folder."""

from nershift.methods.metacross import direct, method

__all__ = ["direct", "method"]
