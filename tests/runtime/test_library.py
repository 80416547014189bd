"""The C interface as another language calls it: nothing in front checks the numbers."""

import copy
import ctypes
import math
import pickle
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from runtime import Runner
from runtime.binding.c_arguments import read_tokens
from runtime.binding.library import ERROR_SIZE, LoadOptions, Options, TextCallback, library

COUNT = 2**31 - 1
SAMPLING = [
    ("max_new_tokens", -1, f"-1, but must be from 0 to {COUNT}"),
    ("max_new_tokens", 2**40, f"{2**40}, but must be from 0 to {COUNT}"),
    ("temperature", math.nan, "nan, but must be from 0 to 100"),
    ("temperature", math.inf, "inf, but must be from 0 to 100"),
    ("temperature", -1.0, "-1, but must be from 0 to 100"),
    ("top_k", -1, f"-1, but must be from 0 to {COUNT}"),
    ("top_p", 1.5, "1.5, but must be from 0 to 1"),
    ("top_p", math.nan, "nan, but must be from 0 to 1"),
    ("min_p", -0.5, "-0.5, but must be from 0 to 1"),
    ("min_p", math.nan, "nan, but must be from 0 to 1"),
]
LOADING = [
    ("threads", -1, "-1, but must be from 0 to 256"),
    ("threads", 257, "257, but must be from 0 to 256"),
    ("cache_type", -1, "-1, but must be from 0 to 5"),
    ("cache_type", 6, "6, but must be from 0 to 5"),
]


@pytest.fixture
def runner(cpp_build: Path, stories_pte: Path) -> Iterator[Runner]:
    with Runner(stories_pte, threads=1) as runner:
        yield runner


def sentence(function: Callable[..., int], *arguments: object) -> str:
    """What a call that must fail says."""
    error = ctypes.create_string_buffer(ERROR_SIZE)
    assert function(*arguments, error, ERROR_SIZE)
    return error.value.decode()


@pytest.mark.parametrize(("name", "value", "said"), SAMPLING)
def test_sampling_out_of_range(runner: Runner, name: str, value: float, said: str) -> None:
    options = Options(max_new_tokens=3, temperature=1.0, top_k=5, top_p=0.9, min_p=0.1, seed=1)
    setattr(options, name, value)
    take = TextCallback(lambda *_: 1)
    arguments = (b"Once", 4, ctypes.byref(options), take, None)
    assert sentence(library().thimble_generate, runner._handle, *arguments) == f"{name} is {said}"


@pytest.mark.parametrize(("name", "value", "said"), LOADING)
def test_loading_out_of_range(
    cpp_build: Path, stories_pte: Path, name: str, value: int, said: str
) -> None:
    options = LoadOptions()
    setattr(options, name, value)
    error = ctypes.create_string_buffer(ERROR_SIZE)
    load = library().thimble_load
    assert load(bytes(stories_pte), ctypes.byref(options), error, ERROR_SIZE) is None
    assert error.value.decode() == f"{name} is {said}"


def test_counts_out_of_range(runner: Runner) -> None:
    lib, handle = library(), runner._handle
    tokens, row = (ctypes.c_int32 * 2)(1, 2), (ctypes.c_float * 2048)()
    for count, first, said in [
        (-1, 0, f"count is -1, but must be from 0 to {COUNT}"),
        (2, -1, "first is -1, but must be from 0 to 1"),
        (2, 2, "first is 2, but must be from 0 to 1"),
    ]:
        assert sentence(lib.thimble_logits, handle, tokens, count, first, row) == said
    assert sentence(lib.thimble_truncate, handle, -1) == (
        f"length is -1, but must be from 0 to {COUNT}"
    )
    assert sentence(lib.thimble_start_recording, handle, -1, 0) == (
        f"max_calls is -1, but must be from 0 to {COUNT}"
    )
    assert sentence(lib.thimble_start_recording, handle, 0, 2**31) == (
        f"max_bytes is {2**31}, but must be from 0 to {2**30}"
    )


@pytest.mark.parametrize("take", [copy.copy, copy.deepcopy, pickle.dumps])
def test_a_runner_is_no_value(runner: Runner, take: Callable[[Runner], object]) -> None:
    """Two of one handle would both free it."""
    with pytest.raises(TypeError) as caught:
        take(runner)
    assert str(caught.value) == "a Runner cannot be copied or pickled: load the model again"
    assert list(runner.generate("Once", max_new_tokens=2))


def test_before_the_first_answer_nothing_has_stopped(runner: Runner) -> None:
    assert runner.stats["stop_reason"] == ""


def test_a_text_may_have_more_tokens_than_bytes() -> None:
    def fill(tokens: "ctypes.Array[ctypes.c_int32]") -> int:
        for place in range(min(7, len(tokens))):
            tokens[place] = place
        return 7

    assert read_tokens(fill, 3, more=1) == list(range(7))
    assert read_tokens(lambda _: 2, 3, more=1) == [0, 0]
