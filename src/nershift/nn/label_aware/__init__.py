"""The label-aware decoder of LANER and what it is made of."""
