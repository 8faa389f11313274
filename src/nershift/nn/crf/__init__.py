"""A linear-chain conditional random field: decoder, kernels for CPU and GPU, search."""
