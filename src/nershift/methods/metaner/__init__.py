"""MetaNER (WWW 2020): meta-learning over source domains with a domain adversary. See README.md in this folder."""

from nershift.methods.metaner import method

__all__ = ["method"]
