"""Models: what a GGUF file is, which ones the user has, and what running them takes."""
