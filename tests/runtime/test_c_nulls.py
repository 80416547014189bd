"""Null pointers at the C interface: options that are null are the defaults; others are errors."""

import ctypes
from pathlib import Path
from typing import Any

import pytest

from runtime.binding.library import (
    ERROR_SIZE,
    EndCallback,
    Request,
    SegmentCallback,
    TextCallback,
    TokenCallback,
    library,
)

FUNCTIONS = (
    "load load_signed use_adapter use_draft generate generate_with_pictures constrain "
    "chat_start chat_begin chat_choose "
    "chat_say chat_add chat_reset encode_pieces logits truncate save restore fork start_recording "
    "stop_recording verify engine_open settings_number settings_bias settings_stop "
    "settings_prediction settings_tokens engine_submit_with encode_prompt program_load "
    "program_load_signed program_run program_output program_method program_reset "
    "program_start_recording program_stop_recording transcriber_load transcriber_run sound_open"
).split()
SILENT = (
    "adapters adapter_at adapter interrupt constraint_notes chat_end chat_turns chat_turns_of "
    "stats encode token_text chat_template picture_form vocab_size length settings_free "
    "settings_special "
    "use_settings engine_cancel engine_step engine_free free program_methods program_signature "
    "program_outputs "
    "program_free transcriber_languages transcriber_language_at transcriber_interrupt "
    "transcriber_free sound_close"
).split()


NUMBERS = (ctypes.c_int32, ctypes.c_int64, ctypes.c_size_t, ctypes.c_double)
CALLBACKS = (TextCallback, EndCallback, TokenCallback, SegmentCallback)


def nulls(function: Any, count: int) -> list[Any]:
    return [0 if t in NUMBERS else t() if t in CALLBACKS else None for t in function.argtypes][
        :count
    ]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_nulls_are_errors(cpp_build: Path, name: str) -> None:
    function = getattr(library(), f"thimble_{name}")
    error = ctypes.create_string_buffer(ERROR_SIZE)
    found = function(*nulls(function, len(function.argtypes) - 2), error, ERROR_SIZE)
    assert found in (None, 0, 1, -1) and b" is null, but must not be" in error.value
    function(*nulls(function, len(function.argtypes) - 2), None, ERROR_SIZE)


@pytest.mark.parametrize("name", SILENT)
def test_without_an_error_nulls_do_nothing(cpp_build: Path, name: str) -> None:
    function = getattr(library(), f"thimble_{name}")
    assert not function(*nulls(function, len(function.argtypes))) or name == "token_text"


def test_other_nulls(cpp_build: Path, embedded_cpu_pte: Path) -> None:
    """A model with default options answers with default options; each pointer is checked."""
    lib, error = library(), ctypes.create_string_buffer(ERROR_SIZE)
    rest = (error, ERROR_SIZE)
    runner = lib.thimble_load(str(embedded_cpu_pte).encode(), None, *rest)
    assert runner, error.value
    found: list[bytes] = []
    on_text = TextCallback(
        lambda text, size, _: found.append(ctypes.string_at(text, size)) or len(found) < 3
    )
    on_end = EndCallback(lambda *_: None)
    none = TextCallback()
    assert lib.thimble_generate(runner, b"a", 1, None, on_text, None, *rest) == 0, error.value
    assert found
    # An empty prompt may be null; whether the model has a token to begin with is its matter.
    lib.thimble_generate(runner, None, 0, None, on_text, None, *rest)
    assert b"null" not in error.value
    request = Request()
    request.count = 2
    engine = lib.thimble_engine_open(runner, None, *rest)
    assert engine, error.value
    for said, call in (
        (b"prompt", lambda: lib.thimble_generate(runner, None, 5, None, on_text, None, *rest)),
        (b"on_text", lambda: lib.thimble_generate(runner, b"a", 1, None, none, None, *rest)),
        (b"the constraint's text", lambda: lib.thimble_constrain(runner, 1, None, 3, *rest)),
        (b"path", lambda: lib.thimble_save(runner, None, *rest)),
        (b"path", lambda: lib.thimble_restore(runner, None, *rest)),
        (b"path", lambda: lib.thimble_stop_recording(runner, None, None, *rest)),
        (b"name", lambda: lib.thimble_use_adapter(runner, None, *rest)),
        (b"draft", lambda: lib.thimble_use_draft(runner, None, *rest)),
        (b"tokens", lambda: lib.thimble_logits(runner, None, 3, 0, None, *rest)),
        (b"pieces", lambda: lib.thimble_encode_pieces(runner, None, 3, None, 0, *rest)),
        (
            b"the request's tokens",
            lambda: lib.thimble_engine_submit_with(
                engine, ctypes.byref(request), None, None, on_text, on_end, None, *rest
            ),
        ),
    ):
        call()
        assert error.value == said + b" is null, but must not be"
    lib.thimble_engine_free(engine)
    lib.thimble_free(runner)
