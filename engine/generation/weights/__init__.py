"""Weights that are larger than memory: each layer pinned there, or read again at every pass."""
