"""The error for bytes that are no document."""


class BadDocument(ValueError):
    """Bytes that are not a document at all; the message says what is wrong and where."""
