"""Measured claims, one script each: ``python -m bench.tokens``, ``bench.limit``, ``bench.cost``."""
