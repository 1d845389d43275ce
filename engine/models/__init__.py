"""Models: what a GGUF file is, which ones the user has, and what they would cost to run."""
