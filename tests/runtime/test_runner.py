"""The Runner class: streaming, closing, errors, and what a process may hold beside it."""

import gc
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.tiers import soaked

from runtime import Runner, RunnerError
from runtime.binding.library import library


@pytest.fixture
def runner(cpp_build: Path, stories_pte: Path) -> Iterator[Runner]:
    with Runner(stories_pte, threads=1) as runner:
        yield runner


def generating() -> bool:
    return any(thread.name == "thimble-generate" for thread in threading.enumerate())


def test_text_comes_in_pieces_and_is_the_golden_text(runner: Runner, shared_data: Path) -> None:
    golden = (shared_data / "stories260K" / "golden.txt").read_text(encoding="utf-8")
    pieces = list(runner.generate("", max_new_tokens=256))
    assert len(pieces) > 100
    assert "".join(pieces) == golden
    assert "".join(runner.generate("", max_new_tokens=256)) == golden  # nothing is left behind


def test_statistics_are_the_last_answers(runner: Runner, stories_pte: Path) -> None:
    for count, cached in [(7, 0), (3, 4)]:
        list(runner.generate("Once upon a time", max_new_tokens=count))
        stats = runner.stats
        assert stats["generated_tokens"] == count
        # The prompt's last token is always computed: its logits are wanted.
        assert (stats["prompt_tokens"], stats["cached_tokens"]) == (5 - cached, cached)
        assert stats["stop_reason"] == "length" and stats["model"] == str(stories_pte)


def test_closing_the_iterator_stops_the_model(runner: Runner) -> None:
    pieces = runner.generate("", temperature=1.0, seed=5)
    next(pieces)
    pieces.close()
    assert runner.stats["stop_reason"] in ("interrupted", "eos", "context_full")
    assert not generating()
    assert len(list(runner.generate("Once", max_new_tokens=3))) > 0


def test_a_forgotten_iterator_frees_the_runner(runner: Runner) -> None:
    pieces = runner.generate("")
    next(pieces)
    del pieces
    gc.collect()
    assert list(runner.generate("Once", max_new_tokens=2))


def test_a_seed_repeats(runner: Runner) -> None:
    def text(seed: int) -> str:
        pieces = runner.generate(
            "Once", 60, temperature=1.0, top_k=50, top_p=0.95, min_p=0.01, seed=seed
        )
        return "".join(pieces)

    assert text(1) == text(1) != text(2)


def test_one_answer_at_a_time(runner: Runner) -> None:
    first = runner.generate("")
    next(first)
    with pytest.raises(RunnerError, match="is generating already: finish or close its iterator"):
        next(runner.generate("Once"))
    first.close()


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"max_new_tokens": 0}, "max_new_tokens is 0, but must be from 1 to 2147483647"),
        ({"temperature": -1}, "temperature is -1, but must be from 0 to 100"),
        ({"temperature": float("nan")}, "temperature is nan, but must be from 0 to 100"),
        ({"top_k": -1}, "top_k is -1, but must be from 0 to 2147483647"),
        ({"top_p": 1.5}, "top_p is 1.5, but must be from 0 to 1"),
        ({"min_p": -0.1}, "min_p is -0.1, but must be from 0 to 1"),
        ({"seed": -1}, "seed is -1, but must be from 0 to 18446744073709551615"),
    ],
)
def test_options_out_of_range(runner: Runner, options: dict, sentence: str) -> None:
    with pytest.raises(RunnerError) as caught:
        runner.generate("Once", **options)
    assert str(caught.value) == sentence


def test_a_prompt_too_long(runner: Runner) -> None:
    with pytest.raises(RunnerError, match="tokens, but the model's context holds"):
        list(runner.generate("word " * 5000))


def test_threads_out_of_range(stories_pte: Path) -> None:
    with pytest.raises(RunnerError, match="threads is 0, but must be from 1 to 256"):
        Runner(stories_pte, threads=0)


def test_a_file_that_is_not_there(cpp_build: Path, tmp_path: Path) -> None:
    with pytest.raises(RunnerError) as caught:
        Runner(tmp_path / "none.pte")
    assert str(caught.value).startswith(f"there is no file {tmp_path}/none.pte: name a .pte")


def test_verify(runner: Runner, stories_pte: Path, tmp_path: Path) -> None:
    runner.verify()
    data = bytearray(stories_pte.read_bytes())
    data[len(data) // 2] ^= 1
    path = tmp_path / "flipped.pte"
    path.write_bytes(data)
    with Runner(path) as damaged, pytest.raises(RunnerError, match="is damaged in its weights"):
        damaged.verify()


def test_closing_the_runner_ends_its_answer(runner: Runner) -> None:
    pieces = runner.generate("")
    next(pieces)
    runner.close()
    assert next(pieces)  # what was said before
    with pytest.raises(RunnerError, match="this Runner is closed, and was before its answer had"):
        list(pieces)
    assert not generating()


def test_a_closed_runner(runner: Runner) -> None:
    runner.close()
    runner.close()
    with pytest.raises(RunnerError, match="this Runner is closed: load the model again"):
        list(runner.generate("Once"))
    with pytest.raises(RunnerError, match="this Runner is closed"):
        _ = runner.stats


def test_two_runners_do_not_mix(cpp_build: Path, stories_pte: Path) -> None:
    with Runner(stories_pte) as one, Runner(stories_pte) as two:
        alone = "".join(one.generate("Once", max_new_tokens=30))
        first, second = one.generate("Once", max_new_tokens=30), two.generate("Lily", 30)
        mixed = [pair for pair in zip(first, second, strict=False)]
        assert "".join(piece for piece, _ in mixed) == alone[: sum(len(p) for p, _ in mixed)]


def test_runners_that_ask_for_other_threads(cpp_build: Path, stories_pte: Path) -> None:
    """XNNPACK keeps the address of the pool that a change of its size frees."""
    code = """
import sys
from runtime import Runner
def say(runner):
    return "".join(runner.generate("Once", max_new_tokens=20)), runner.stats["threads"]
with Runner(sys.argv[1], threads=2) as one:
    alone = say(one)
    with Runner(sys.argv[1], threads=3) as two:
        assert say(two) == alone and alone[1] == 2, (say(two), alone)
    assert say(one) == alone
with Runner(sys.argv[1], threads=3) as three:
    assert say(three) == (alone[0], 3)
"""
    result = subprocess.run(
        [sys.executable, "-c", code, str(stories_pte)], capture_output=True, text=True, timeout=120
    )
    assert result.returncode == 0, result.stderr


def test_truncating(runner: Runner) -> None:
    text = "".join(runner.generate("Once upon a time", max_new_tokens=20))
    assert runner.length == 5 + 19  # the last token is said, and not fed back
    runner.truncate(2)
    assert runner.length == 2
    assert "".join(runner.generate("Once upon a time", max_new_tokens=20)) == text
    assert runner.stats["cached_tokens"] == 2
    with pytest.raises(RunnerError, match="cannot truncate to 99 tokens: the cache holds 24"):
        runner.truncate(99)
    with pytest.raises(RunnerError, match="length is -1, but must be from 0"):
        runner.truncate(-1)


def test_what_only_the_cpu_delegate_has(runner: Runner, stories_pte: Path, tmp_path: Path) -> None:
    list(runner.generate("Once", max_new_tokens=2))
    calls = {
        "saved": lambda: runner.save(tmp_path / "session"),
        "restored": lambda: runner.restore(tmp_path / "session"),
        "forked": runner.fork,
    }
    for word, call in calls.items():
        with pytest.raises(RunnerError) as caught:
            call()
        assert str(caught.value) == (
            f"{stories_pte} has a key/value cache that cannot be {word}: export it with "
            "--delegate cpu"
        )
    assert list(tmp_path.iterdir()) == []
    for options in [{"kv_cache": "int8"}, {"huge_pages": True}]:
        with pytest.raises(
            RunnerError, match="does not run on the CPU delegate, the only one with"
        ):
            Runner(stories_pte, **options)
    with pytest.raises(RunnerError) as caught:
        Runner(stories_pte, kv_cache="int2")
    assert str(caught.value) == (
        "kv_cache is 'int2', but must be one of default, float16, float32, int8, int4, int8-int4"
    )


def test_a_library_that_is_not_built(tmp_path: Path) -> None:
    with pytest.raises(RunnerError) as caught:
        library(tmp_path)
    assert str(caught.value) == f"{tmp_path}/libthimble.so is not built: run thimble-runtime build"


def test_python_may_exit_in_the_middle(cpp_build: Path, stories_pte: Path) -> None:
    program = """
import sys
from runtime import Runner
pieces = Runner(sys.argv[1]).generate("", max_new_tokens=100)
print(next(pieces))
"""
    command = [sys.executable, "-c", program, str(stories_pte)]
    root = Path(__file__).resolve().parents[2]
    result = subprocess.run(command, capture_output=True, text=True, cwd=root, timeout=60)
    assert (result.returncode, result.stderr) == (0, "")


BESIDE_STOCK = """
import sys
from runtime import Runner

def stock():
    import executorch.extension.llm.custom_ops.custom_ops
    import executorch.kernels.quantized
    import executorch.extension.pybindings.portable_lib

def ours():
    print("".join(Runner(sys.argv[2]).generate("Once", max_new_tokens=5)))

for step in sys.argv[1]:
    stock() if step == "s" else ours()
"""


@pytest.mark.check
@pytest.mark.parametrize("order", ["so", *soaked(["os"])])
def test_it_works_beside_executorchs_own_python(
    cpp_build: Path, stories_pte: Path, order: str
) -> None:
    """Both sides register operators, backends and a log: in either order, neither aborts."""
    command = [sys.executable, "-W", "ignore", "-c", BESIDE_STOCK, order, str(stories_pte)]
    root = Path(__file__).resolve().parents[2]
    result = subprocess.run(command, capture_output=True, text=True, cwd=root)
    assert result.returncode == 0, result.stderr
    assert result.stdout.startswith(" upon a time")
    assert "register_pal" not in result.stderr and "executorch:" not in result.stderr


def test_logits_are_those_of_a_call_for_each_token(
    cpp_build: Path, stories_cpu_float_pte: Path
) -> None:
    """Read as a prompt or token by token, in parts or at once: the same float32 program, so the
    same but for the order of its sums."""
    with Runner(stories_cpu_float_pte, threads=1) as runner:
        tokens = [1, *runner.encode("Once upon a time there was a tiny dog")]
        whole = runner.logits(tokens)
        assert whole.shape == (len(tokens), 512) and runner.length == len(tokens)
        runner.truncate(0)
        assert (runner.logits(tokens, 7) - whole[7:]).__abs__().max() < 1e-3
        assert (runner.logits([*tokens[:9], 300], 9) == runner.logits([*tokens[:9], 300])[9:]).all()
        story = "".join(runner.generate("Once upon a time", max_new_tokens=20))
        greedy = [1, *runner.encode("Once upon a time")]
        for _ in range(20):
            greedy.append(int(runner.logits(greedy, len(greedy) - 1)[0].argmax()))
        assert runner.encode("Once upon a time" + story) == greedy[1:]


@pytest.mark.parametrize(
    ("tokens", "first", "sentence"),
    [
        ([1, 512], 0, "the prompt has token 512, which is not one of the model's 512"),
        ([1] * 513, 512, "the prompt has 513 tokens, but the model's context holds 512"),
        ([], 0, "the prompt has no tokens"),
        ([1, 2], 2, "first is 2, but must be from 0 to 1"),
    ],
)
def test_logits_of_what_is_not_there_are_an_error(
    runner: Runner, tokens: list[int], first: int, sentence: str
) -> None:
    with pytest.raises(RunnerError, match=sentence):
        runner.logits(tokens, first)


def test_text_of_a_user_names_no_special_token(runner: Runner) -> None:
    assert runner.encode("") == []
    assert 1 not in runner.encode("<s>") and len(runner.encode("<s>")) > 1


@pytest.mark.parametrize("work", ["answer", "encode", "logits", "verify", "stats"])
def test_closing_while_another_thread_works(cpp_build: Path, stories_pte: Path, work: str) -> None:
    """It waits for what is being done, and refuses what comes after."""
    calls = {
        "answer": lambda runner: list(runner.generate("Once upon", 30)),
        "encode": lambda runner: runner.encode("once upon a time " * 2000),
        "logits": lambda runner: (runner.truncate(0), runner.logits([1, *range(5, 100)])),
        "verify": lambda runner: runner.verify(),
        "stats": lambda runner: runner.stats,
    }

    def keep_on(runner: Runner, began: threading.Event, said: list[str]) -> None:
        try:
            while True:
                calls[work](runner)
                began.set()
        except RunnerError as error:
            said.append(str(error))

    for _ in range(5):
        runner, began, said = Runner(stories_pte, threads=1), threading.Event(), list[str]()
        thread = threading.Thread(target=keep_on, args=[runner, began, said])
        thread.start()
        assert began.wait(timeout=30)
        runner.close()
        thread.join(timeout=30)
        (reason,) = said
        assert reason.startswith("this Runner is closed")


def test_statistics_are_read_by_two_threads(runner: Runner) -> None:
    list(runner.generate("Once", 20))
    expected, differing = runner.stats, []

    def read() -> None:
        differing.extend(1 for _ in range(3000) if runner.stats != expected)

    threads = [threading.Thread(target=read) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert differing == []


def test_a_forked_process_must_load_again(runner: Runner) -> None:
    list(runner.generate("Once", 3))
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            list(runner.generate("Once", 3))
        except RunnerError as error:
            os.write(writing, str(error).encode())
        runner.close()
        os._exit(0)
    os.close(writing)
    with open(reading, encoding="utf-8") as pipe:
        said = pipe.read()
    assert os.waitpid(child, 0) == (child, 0)
    assert said == "this Runner was loaded before the process was forked: load the model again"


@pytest.mark.parametrize(
    ("tokens", "said"),
    [
        ([2**40], "a token is not in the vocabulary: its number is too large"),
        ([[1, 2], [3, 4]], "tokens must be one row of whole numbers"),
        ([1.7, 2.2], "tokens must be one row of whole numbers"),
    ],
)
def test_what_is_no_row_of_tokens(runner: Runner, tokens: list, said: str) -> None:
    with pytest.raises(RunnerError, match=said):
        runner.logits(tokens)


def test_a_name_with_a_zero_byte(runner: Runner, stories_pte: Path) -> None:
    with pytest.raises(RunnerError, match="contains a zero byte, which a file name must not"):
        Runner(f"{stories_pte}\0more")
    with pytest.raises(RunnerError, match="contains a zero byte"):
        runner.save("a\0b")
