"""LANER (NAACL Findings 2022): label-aware decoding. See README.md in this folder."""

from nershift.methods.laner import method

__all__ = ["method"]
