"""A terminal chat agent that keeps long conversations within the window, and every word on disk."""

__version__ = "0.1.0"
