"""Partitions: where chunks and their vectors live on disk, and how they are found again."""
