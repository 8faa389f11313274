"""Methods by name: a file each, or a folder for a paper. They register themselves; see :mod:`nershift.registry`."""

from nershift.methods.base import METHODS, Method, Setup, register

__all__ = ["METHODS", "Method", "Setup", "register"]
