"""What a file computes otherwise than transformers, because its rotary table is of one length."""

from exporter.models.rotary_spec import DynamicScaling, LongRopeScaling
from exporter.models.spec import DecoderSpec


def rotary_notes(spec: DecoderSpec, context: int, made: DecoderSpec) -> list[str]:
    """Returns a sentence for each rotary table that transformers chooses by the length of a text,
    and the file does not.

    Args:
        spec: before its tables are fixed for a context.
        context: positions of the file's caches.
        made: the decoder of the file, for that context.
    """
    notes = []
    for table in spec.rotary_tables:
        match table.scaling:
            case LongRopeScaling(original_max_position_embeddings=original) as scaling:
                kind, given = "longrope", "its factors for longer texts"
                if table in made.rotary_tables or scaling.short_factor == scaling.long_factor:
                    continue
            case DynamicScaling(max_position_embeddings=original):
                kind, given = "dynamic", f"that of {context} tokens"
            case _:
                continue
        if context > original:
            notes.append(
                f"The rotary table of this model depends on the length of a text (rope_type "
                f"{kind}). The file uses {given} for every text, and transformers only for texts "
                f"of more than {original} tokens: with --max-context-len {original}, both compute "
                "the same."
            )
    return list(dict.fromkeys(notes))
