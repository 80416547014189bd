"""The error that this package raises."""

from exporter.errors import ExportError


class TokenizerError(ExportError):
    """A part of a tokenizer or chat template is damaged or not supported; the sentence names it."""
