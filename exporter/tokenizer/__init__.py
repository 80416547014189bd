"""Tokenizers: compiled at export into the form that the runner reads; the reference tokenizers for
calibration and tests."""

from exporter.tokenizer.compile import CompiledTokenizer, compile_tokenizer
from exporter.tokenizer.errors import TokenizerError
from exporter.tokenizer.reference import ReferenceTokenizer, load_tokenizer

__all__ = [
    "CompiledTokenizer",
    "ReferenceTokenizer",
    "TokenizerError",
    "compile_tokenizer",
    "load_tokenizer",
]
