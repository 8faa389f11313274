"""The plain tagger on the target's own labels."""
