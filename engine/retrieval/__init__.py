"""Retrieval: questions in, passages and quotes out."""
