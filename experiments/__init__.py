"""The papers' tables and figures as grids of runs: a folder for each paper, and what all of them share.

``python -m experiments list`` names them; README.md tells how to run one.
"""
