"""LANER (NAACL Findings 2022): label-aware decoding. See README.md in this folder."""

from nershift.methods.laner import head, method

try:
    from nershift.methods.laner import fast
except ImportError:  # the folder is optional: without it everything works, only slower
    pass
else:
    head.fast = fast

__all__ = ["head", "method"]
