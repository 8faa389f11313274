"""CrossLM (ACL 2019): language models as the bridge between domains. See README.md in this folder."""

from nershift.methods.crosslm import bilm, method

__all__ = ["bilm", "method"]
