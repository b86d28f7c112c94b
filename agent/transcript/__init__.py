"""The transcript: records on disk, the view derived from them, the readable companion."""
