"""A tagger behind HTTP: tag, correct, adapt; see :mod:`nershift.server.app`."""
