"""The inner update of many tasks at once, exactly, without a copy of the weights for each."""
