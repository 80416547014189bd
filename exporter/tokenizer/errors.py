"""What this package raises."""

from exporter.errors import ExportError


class TokenizerError(ExportError):
    """One sentence: which part of a tokenizer or chat template is damaged or not supported."""
