"""Explains what an export does with each line of an encoder, without writing a file."""

from delegates import get_delegate
from exporter.capture.shapes import noting_conditions
from exporter.checkpoint.encoder import open_encoder
from exporter.embedding.pipeline import (
    EmbeddingOptions,
    capture,
    empty_model,
    require_delegate,
    rows_of_call,
)
from exporter.embedding.quantize import load_quantized, stored_scheme
from exporter.embedding.settings import read_settings
from exporter.embedding.text import open_tokenizer
from exporter.explain import Explanation, explain_program, quick_scheme
from exporter.listener import Listener


def explain_embedding(options: EmbeddingOptions, listener: Listener) -> Explanation:
    """Captures and lowers an encoder as an export does, with weights as explain_export() has them.

    Raises:
        ExportError, QuantError, TokenizerError, DelegateError: with the sentence to show.
    """
    require_delegate(options.delegate)
    scheme = stored_scheme(options.scheme)
    settings = read_settings(options.directory)
    checkpoint = open_encoder(options.directory, settings.dense)
    _, reader = open_tokenizer(options.directory, checkpoint.config, settings, options.max_seq_len)
    model = empty_model(checkpoint.config, settings.spec)
    checkpoint.check(model)
    listener.stage("load" if scheme.name == "none" else "quantize")
    load_quantized(model, checkpoint, quick_scheme(scheme), None, listener.progress)
    listener.stage("capture")
    with noting_conditions() as lines:
        program = capture(model, rows_of_call(checkpoint.config, reader))
    return explain_program(scheme, program, lines, get_delegate(options.delegate), listener)
