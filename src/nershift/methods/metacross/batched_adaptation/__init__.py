"""Many tasks' gradient steps at once, without a copy of the weights for each."""
