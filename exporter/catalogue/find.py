"""Finds the checkpoint of an export: the given one, the preset's own, or the embedded model."""

from dataclasses import replace

from exporter.catalogue.names import EMBEDDED, EMBEDDED_PRESET, preset_name
from exporter.catalogue.presets import PRESETS, resolve_model
from exporter.catalogue.seeing import is_seeing
from exporter.checkpoint import (
    Checkpoint,
    open_checkpoint,
    read_adapters,
    refuse_adapter_beside,
    with_adapter,
)
from exporter.errors import ExportError
from exporter.listener import Listener
from exporter.models.family import Family
from exporter.options import ExportOptions
from exporter.seeing.towers import kind_of

EMBEDDED_NAME = "thimble-python-4m"


def open_model(name: str, family: Family | None = None) -> Checkpoint:
    """Returns the checkpoint of a preset, a directory, a GGUF file or a hub id.

    Args:
        family: the architecture; None: the family of the config's model_type.

    Raises:
        ExportError: there is none of that name, or it is damaged.
    """
    if preset_name(name) == EMBEDDED_PRESET:
        return open_checkpoint(EMBEDDED, family)
    return open_checkpoint(resolve_model(name, family).source, family)


def find_checkpoint(options: ExportOptions, listener: Listener) -> Checkpoint:
    """Opens the weights of the requested model, with one adapter merged and others kept apart.

    Raises:
        ExportError: there is no such model, checkpoint or adapter, or it is damaged.
    """
    checkpoint = _find_checkpoint(options, listener)
    if options.vision and is_seeing(checkpoint.directory, options.delegate):
        seen = kind_of(checkpoint.directory).parts
        left_out = {part: n for part, n in checkpoint.left_out.items() if part not in seen}
        checkpoint = replace(checkpoint, left_out=left_out)
    if checkpoint.left_out:
        parts = ", ".join(
            f"{name} ({count} tensor{'s' if count > 1 else ''})"
            for name, count in checkpoint.left_out.items()
        )
        listener.note(f"Exporting the language model of {checkpoint.name} alone, without {parts}.")
    if checkpoint.rounded_activations:
        listener.note(
            f"{checkpoint.name} is quantized to round activations as well "
            f"({checkpoint.rounded_activations}): its weights are read, and activations are not "
            "rounded so."
        )
    apart = read_adapters(checkpoint, options.adapters)
    if options.adapter is None and not options.adapters:
        refuse_adapter_beside(checkpoint)
    if options.adapter is not None:
        merged = with_adapter(checkpoint, options.adapter)
        if checkpoint.config.tie_word_embeddings and not merged.config.tie_word_embeddings:
            listener.note(
                f"The adapter changes the embedding or the head of {checkpoint.name}, which are "
                "tied. So the file has two matrices, as PEFT's model computes before it is merged. "
                "(PEFT's merge_and_unload adds such changes to both.)"
            )
        checkpoint = merged
    for note in (*checkpoint.notes, *(note for one in apart for note in one.notes)):
        listener.note(note)
    return replace(checkpoint, adapters=apart)


def _find_checkpoint(options: ExportOptions, listener: Listener) -> Checkpoint:
    if options.checkpoint is not None:
        if options.model is not None and preset_name(options.model) is None:
            resolve_model(options.model, options.family)
        return open_checkpoint(options.checkpoint, options.family)
    if options.model is None:
        raise ExportError("no model was given; name one such as llama3, or a checkpoint.")
    checkpoint = open_model(options.model, options.family)
    if preset_name(options.model) == EMBEDDED_PRESET:
        checkpoint.name = EMBEDDED_NAME
        real = PRESETS[EMBEDDED_PRESET].source
        listener.note(
            f"Exporting {EMBEDDED_NAME}, the small Llama 3 that ships with this package, as no "
            f"checkpoint was named. The real one is {real}: thimble-run {real}, or "
            f"thimble-export {real} --out model.pte."
        )
    return checkpoint
