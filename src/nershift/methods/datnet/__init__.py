"""DATNet (ACL 2019): dual adversarial transfer. See README.md in this folder."""

from nershift.methods.datnet import method

__all__ = ["method"]
