"""Memory: who holds how many bytes in which tier, and where bytes should live next."""
