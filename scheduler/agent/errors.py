"""What can go wrong where the agent looks at a machine."""


class SourceError(Exception):
    """A source is not there or cannot be read; the sentence names the source and what was wrong."""
