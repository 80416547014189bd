"""libthimble for ctypes: the functions of the headers in runtime/cpp/c_interface."""

import ctypes
from functools import cache
from pathlib import Path

from runtime.build import BUILD_DIR, REMEDY
from runtime.errors import BuildError, RunnerError
from runtime.executorch_package import open_beside_executorch

ERROR_SIZE = 4096


class LoadOptions(ctypes.Structure):
    """thimble_load_options."""

    _fields_ = [
        ("threads", ctypes.c_int32),
        ("cache_type", ctypes.c_int32),
        ("huge_pages", ctypes.c_int32),
    ]


class RecordingCounts(ctypes.Structure):
    """thimble_recording."""

    _fields_ = [("calls", ctypes.c_int64), ("dropped_calls", ctypes.c_int64)]


class Picture(ctypes.Structure):
    """thimble_picture."""

    _fields_ = [
        ("data", ctypes.c_void_p),
        ("size", ctypes.c_size_t),
        ("width", ctypes.c_int64),
        ("height", ctypes.c_int64),
    ]


class Options(ctypes.Structure):
    """thimble_options."""

    _fields_ = [
        ("max_new_tokens", ctypes.c_int64),
        ("temperature", ctypes.c_float),
        ("top_k", ctypes.c_int32),
        ("top_p", ctypes.c_float),
        ("min_p", ctypes.c_float),
        ("seed", ctypes.c_uint64),
    ]


class Piece(ctypes.Structure):
    """thimble_piece."""

    _fields_ = [
        ("text", ctypes.c_char_p),
        ("size", ctypes.c_size_t),
        ("literal", ctypes.c_int32),
    ]


class Token(ctypes.Structure):
    """thimble_token."""

    _fields_ = [
        ("token", ctypes.c_int32),
        ("logprob", ctypes.c_double),
        ("text", ctypes.POINTER(ctypes.c_char)),
        ("size", ctypes.c_size_t),
    ]


class Tensor(ctypes.Structure):
    """thimble_tensor."""

    _fields_ = [
        ("name", ctypes.c_char_p),
        ("type", ctypes.c_char_p),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("rank", ctypes.c_int32),
        ("data", ctypes.c_void_p),
    ]


TextCallback = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.POINTER(ctypes.c_char), ctypes.c_size_t, ctypes.c_void_p
)

TileCallback = ctypes.CFUNCTYPE(
    ctypes.c_int,
    ctypes.POINTER(ctypes.c_float),
    ctypes.POINTER(ctypes.c_int64),
    ctypes.c_size_t,
    ctypes.c_void_p,
)

TokenCallback = ctypes.CFUNCTYPE(
    None, ctypes.POINTER(Token), ctypes.POINTER(Token), ctypes.c_size_t, ctypes.c_void_p
)

WantedCallback = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)

EndCallback = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)


class EngineOptions(ctypes.Structure):
    """thimble_engine_options."""

    _fields_ = [
        ("sequences", ctypes.c_int32),
        ("queue", ctypes.c_int32),
        ("prompt_rows", ctypes.c_int32),
    ]


class Text(ctypes.Structure):
    """thimble_text."""

    _fields_ = [("text", ctypes.c_char_p), ("size", ctypes.c_size_t)]


class EmbeddingCounts(ctypes.Structure):
    """thimble_embedding_counts."""

    _fields_ = [("tokens", ctypes.c_int64), ("cut", ctypes.c_int64)]


class Sound(ctypes.Structure):
    """thimble_sound."""

    _fields_ = [
        ("samples", ctypes.c_void_p),
        ("frames", ctypes.c_uint64),
        ("type", ctypes.c_int32),
        ("channels", ctypes.c_int32),
        ("rate", ctypes.c_int32),
    ]


class TranscribeOptions(ctypes.Structure):
    """thimble_transcribe_options."""

    _fields_ = [
        ("language", ctypes.c_char_p),
        ("prompt", ctypes.c_char_p),
        ("translate", ctypes.c_int32),
        ("timestamps", ctypes.c_int32),
        ("no_fallback", ctypes.c_int32),
        ("temperature", ctypes.c_double),
        ("seed", ctypes.c_uint64),
    ]


class SoundWord(ctypes.Structure):
    """thimble_sound_word."""

    _fields_ = [
        *((name, ctypes.c_double) for name in ("start", "end")),
        ("text", ctypes.POINTER(ctypes.c_char)),
        ("size", ctypes.c_size_t),
    ]


class SoundSegment(ctypes.Structure):
    """thimble_sound_segment."""

    _fields_ = [
        *((name, ctypes.c_double) for name in ("start", "end", "window")),
        ("text", ctypes.POINTER(ctypes.c_char)),
        ("size", ctypes.c_size_t),
        ("tokens", ctypes.POINTER(ctypes.c_int32)),
        ("count", ctypes.c_size_t),
        *((name, ctypes.c_double) for name in ("temperature", "avg_logprob")),
        *((name, ctypes.c_double) for name in ("compression_ratio", "no_speech_prob")),
        ("words", ctypes.POINTER(SoundWord)),
        ("word_count", ctypes.c_size_t),
    ]


SegmentCallback = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(SoundSegment), ctypes.c_void_p)
PartCallback = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.POINTER(SoundSegment), ctypes.c_int32, ctypes.c_void_p
)


class Request(ctypes.Structure):
    """thimble_request."""

    _fields_ = [
        ("tokens", ctypes.POINTER(ctypes.c_int32)),
        ("count", ctypes.c_int64),
        ("options", Options),
        ("constraint_kind", ctypes.c_int32),
        ("constraint", ctypes.c_char_p),
        ("constraint_size", ctypes.c_size_t),
    ]


@cache
def library(directory: Path = BUILD_DIR) -> ctypes.CDLL:
    """Returns the library of a build directory, with its functions declared.

    Raises:
        RunnerError: it is not built, or cannot be loaded.
    """
    lib = open_library(directory / "libthimble.so")
    _declare(lib)
    return lib


def open_library(path: Path) -> ctypes.CDLL:
    """Returns a built library, with its functions not yet declared.

    Raises:
        RunnerError: it is not built, or cannot be loaded.
    """
    if not path.is_file():
        raise RunnerError(f"{path} is not built: {REMEDY}")
    try:
        return open_beside_executorch(path)
    except BuildError as error:
        raise RunnerError(f"cannot load {path}: {error}") from error
    except OSError as error:
        raise RunnerError(f"cannot load {path}: {error}: {REMEDY}") from error


def _declare(lib: ctypes.CDLL) -> None:
    text, size, pointer = ctypes.c_char_p, ctypes.c_size_t, ctypes.c_void_p
    number, wide = ctypes.c_int, ctypes.c_int64
    options, load_options = ctypes.POINTER(Options), ctypes.POINTER(LoadOptions)
    tokens, logits = ctypes.POINTER(ctypes.c_int32), ctypes.POINTER(ctypes.c_float)
    functions = {
        "version": (text,),
        "load": (pointer, text, load_options, text, size),
        "load_signed": (pointer, text, text, load_options, text, size),
        "adapters": (wide, pointer),
        "adapter_at": (text, pointer, wide),
        "adapter": (text, pointer),
        "use_adapter": (number, pointer, text, text, size),
        "use_draft": (number, pointer, text, text, size),
        "generate": (number, pointer, text, size, options, TextCallback, pointer, text, size),
        "picture_form": (text, pointer),
        "picture_tiles": (
            *(number, text, size, ctypes.POINTER(Picture), TileCallback, pointer),
            *(text, size),
        ),
        "generate_with_pictures": (
            *(number, pointer, text, size, ctypes.POINTER(Picture), size, options),
            *(TextCallback, pointer, text, size),
        ),
        "chat_say_with_pictures": (
            *(number, pointer, text, size, ctypes.POINTER(Picture), size, options),
            *(TextCallback, pointer, ctypes.POINTER(wide), text, size),
        ),
        "see": (pointer, pointer, ctypes.POINTER(Picture), size, text, size),
        "encode_seen": (
            *(wide, pointer, pointer, ctypes.POINTER(Piece), wide, tokens, wide),
            *(text, size),
        ),
        "seen_free": (None, pointer),
        "interrupt": (None, pointer, ctypes.c_int32),
        "constrain": (number, pointer, ctypes.c_int32, text, size, text, size),
        "constraint_notes": (text, pointer),
        "chat_start": (number, pointer, text, size, text, size),
        "chat_say": (
            *(number, pointer, text, size, options, TextCallback, pointer),
            *(ctypes.POINTER(wide), text, size),
        ),
        "chat_add": (number, pointer, text, size, text, size, text, size),
        "chat_begin": (wide, pointer, text, size, text, size),
        "chat_choose": (number, pointer, wide, text, size),
        "chat_end": (None, pointer, wide),
        "chat_reset": (number, pointer, text, size),
        "chat_turns": (wide, pointer),
        "chat_turns_of": (wide, pointer, wide),
        "stats": (text, pointer),
        "encode": (wide, pointer, text, size, tokens, wide),
        "token_text": (pointer, pointer, ctypes.c_int32, ctypes.POINTER(size)),
        "encode_pieces": (
            *(wide, pointer, ctypes.POINTER(Piece), wide, tokens, wide),
            *(text, size),
        ),
        "chat_template": (text, pointer),
        "file_settings": (text, pointer),
        "vocab_size": (wide, pointer),
        "logits": (number, pointer, tokens, wide, wide, logits, text, size),
        "logit_rows": (number, pointer, tokens, wide, wide, wide, logits, text, size),
        "length": (wide, pointer),
        "truncate": (number, pointer, wide, text, size),
        "save": (number, pointer, text, text, size),
        "restore": (number, pointer, text, text, size),
        "fork": (pointer, pointer, text, size),
        "start_recording": (number, pointer, wide, wide, text, size),
        "stop_recording": (number, pointer, text, ctypes.POINTER(RecordingCounts), text, size),
        "verify": (number, pointer, text, size),
        "engine_open": (pointer, pointer, ctypes.POINTER(EngineOptions), text, size),
        "answer_numbers": (text,),
        "settings_new": (pointer,),
        "settings_free": (None, pointer),
        "settings_number": (number, pointer, text, ctypes.c_double, text, size),
        "settings_special": (None, pointer, TextCallback, pointer),
        "settings_wanted": (None, pointer, WantedCallback, pointer),
        "settings_bias": (number, pointer, ctypes.c_int32, ctypes.c_double, text, size),
        "settings_stop": (number, pointer, text, size, text, size),
        "settings_prediction": (number, pointer, text, size, text, size),
        "settings_tokens": (
            *(number, pointer, ctypes.c_int32, TokenCallback, pointer, text, size),
        ),
        "use_settings": (None, pointer, pointer),
        "engine_submit_with": (
            *(wide, pointer, ctypes.POINTER(Request), pointer, text),
            *(TextCallback, EndCallback, pointer, text, size),
        ),
        "engine_cancel": (None, pointer, wide),
        "engine_step": (wide, pointer),
        "engine_free": (None, pointer),
        "encode_prompt": (wide, pointer, text, size, tokens, wide, text, size),
        "free": (None, pointer),
        "embedder_load": (pointer, text, load_options, text, size),
        "embedder_load_signed": (pointer, text, text, load_options, text, size),
        "embedder_width": (wide, pointer),
        "embedder_max_seq_len": (wide, pointer),
        "embedder_prompts": (wide, pointer),
        "embedder_prompt_at": (text, pointer, wide),
        "embedder_run": (
            *(number, pointer, ctypes.POINTER(Text), wide, text, logits),
            *(ctypes.POINTER(EmbeddingCounts), text, size),
        ),
        "embedder_free": (None, pointer),
        "transcriber_load": (pointer, text, load_options, text, size),
        "transcriber_load_signed": (pointer, text, text, load_options, text, size),
        "transcriber_languages": (wide, pointer),
        "transcriber_language_at": (text, pointer, wide),
        "sound_open": (pointer, pointer, size, ctypes.c_double, ctypes.POINTER(Sound), text, size),
        "sound_close": (None, pointer),
        "transcriber_run": (
            *(number, pointer, ctypes.POINTER(Sound), ctypes.POINTER(TranscribeOptions)),
            *(SegmentCallback, pointer, text, size, text, size),
        ),
        "subtitles": (
            *(number, ctypes.c_int32, ctypes.POINTER(SoundSegment), size),
            *(TextCallback, pointer, text, size),
        ),
        "sound_stream_open": (
            *(pointer, pointer, ctypes.POINTER(Sound), ctypes.POINTER(TranscribeOptions)),
            *(ctypes.c_double, PartCallback, pointer, text, size),
        ),
        "sound_stream_feed": (number, pointer, pointer, ctypes.c_uint64, text, size),
        "sound_stream_finish": (number, pointer, text, size),
        "sound_stream_close": (None, pointer),
        "transcriber_interrupt": (None, pointer, ctypes.c_int32),
        "transcriber_free": (None, pointer),
        "program_load": (pointer, text, load_options, text, size),
        "program_load_signed": (pointer, text, text, load_options, text, size),
        "program_methods": (text, pointer),
        "program_method": (pointer, pointer, text, text, size),
        "program_signature": (text, pointer),
        "program_run": (number, pointer, ctypes.POINTER(Tensor), size, text, size),
        "program_outputs": (size, pointer),
        "program_output": (number, pointer, size, ctypes.POINTER(Tensor), text, size),
        "program_reset": (number, pointer, text, size),
        "program_start_recording": (number, pointer, wide, wide, text, size),
        "program_stop_recording": (
            *(number, pointer, text, ctypes.POINTER(RecordingCounts), text, size),
        ),
        "program_free": (None, pointer),
    }
    for name, (result, *arguments) in functions.items():
        function = getattr(lib, f"thimble_{name}")
        function.restype, function.argtypes = result, arguments
