"""A strict Messages API server on loopback, for tests and demonstrations."""
