"""A linear-chain conditional random field: head, kernels for CPU and GPU, search."""
