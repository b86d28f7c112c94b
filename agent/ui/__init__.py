"""The terminal: consumes events, never touches the loop or the context."""
