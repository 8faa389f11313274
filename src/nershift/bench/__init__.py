"""The papers' experiments as grids of cells: each cell one run, each result a file of its own."""
