"""Several requests at once: each gets the text, and the statistics, that it would get alone."""

import threading
import weakref
from pathlib import Path

import pytest
from support.cache_kinds import shared_kind
from support.servers import wait_for
from support.tiers import checked, soaked

import runtime.engine
from runtime import Engine, Runner, RunnerError

LONG = "A long text, which is read in several parts, before its answer begins. " * 6
PROMPTS = ("Once upon a time", "import os", LONG, "", "def add(a, b):", "x", LONG + "And", "é \\")


@pytest.fixture(
    scope="module",
    params=["full", *checked(["delta rule", "windows"]), *soaked(["short convolutions"])],
)
def pte(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, cpp_build: Path
) -> Path:
    return shared_kind(request, tmp_path_factory)


def options(i: int) -> dict[str, float]:
    return {"max_new_tokens": 20 + i, "temperature": i % 2, "top_p": 0.9, "seed": i}


def test_others_are_answered_while_a_constraint_is_compiled(
    embedded_cpu_pte: Path, cpp_build: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Runner(embedded_cpu_pte, threads=1) as runner, Engine(runner) as engine:
        real = runtime.engine.library().thimble_engine_submit_with
        answered: list[str] = []

        def slow(*arguments: object) -> int:
            """Submits a request, after another's whole answer."""
            monkeypatch.setattr(runtime.engine.library(), "thimble_engine_submit_with", real)
            thread = threading.Thread(
                target=lambda: answered.append(engine.submit("x", 3).text()), daemon=True
            )
            thread.start()
            thread.join(60)
            assert len(answered) == 1
            return real(*arguments)

        monkeypatch.setattr(runtime.engine.library(), "thimble_engine_submit_with", slow)
        assert engine.submit("x", 9, choice=["yes"]).text() == "yes"


@pytest.mark.parametrize(("sequences", "prompt_rows"), [(1, 64), (3, 5), (8, 64)])
def test_texts_are_those_of_requests_alone(pte: Path, sequences: int, prompt_rows: int) -> None:
    runner = Runner(pte, threads=2)
    expected = []
    for i, prompt in enumerate(PROMPTS):
        text = "".join(runner.generate(prompt, **options(i)))
        expected.append((text, runner.stats["generated_tokens"], runner.stats["stop_reason"]))
    with Engine(runner, sequences=sequences, prompt_rows=prompt_rows) as engine:
        work = [engine.submit(prompt, **options(i)) for i, prompt in enumerate(PROMPTS)]
        texts = [generation.text() for generation in work]
        found = [
            (text, generation.stats["generated_tokens"], generation.stats["stop_reason"])
            for text, generation in zip(texts, work, strict=True)
        ]
    assert found == expected
    # The runner is as it was.
    again = "".join(runner.generate(PROMPTS[-1], **options(len(PROMPTS) - 1)))
    assert again == expected[-1][0]


def test_constraints(embedded_cpu_pte: Path, cpp_build: Path) -> None:
    kinds = [
        {"regex": "[a-f]{3,9}(,[0-9]+)*"},
        {"choice": ["yes", "no", "perhaps"]},
        {"json_schema": {"type": "array", "items": {"type": "boolean"}, "minItems": 3}},
        {},
    ]
    runner = Runner(embedded_cpu_pte)
    sampling = {"temperature": 1.2, "seed": 8, "max_new_tokens": 40}
    expected = ["".join(runner.generate("def", **sampling, **kind)) for kind in kinds]
    with Engine(runner, sequences=3) as engine:
        for _ in range(2):  # the second time with constraints of requests that have ended
            work = [engine.submit("def", **sampling, **kind) for kind in kinds * 2]
            assert [generation.text() for generation in work] == expected * 2
        with pytest.raises(RunnerError, match="a group is not closed"):
            engine.submit("def", regex="(")


def test_prefixes_are_shared(embedded_cpu_pte: Path, cpp_build: Path) -> None:
    runner = Runner(embedded_cpu_pte)
    length = len(runner.encode(LONG))
    with Engine(runner, sequences=2) as engine:
        first = engine.submit(LONG + "One", max_new_tokens=200)
        pieces = iter(first)
        next(pieces)  # its prompt is read
        second = engine.submit(LONG + "Two", max_new_tokens=3)
        second.text()
        assert second.stats["cached_tokens"] >= length - 2  # copied from the one at work
        first.cancel()
        list(pieces)
        third = engine.submit(LONG + "Three", max_new_tokens=3)
        third.text()
        assert third.stats["cached_tokens"] >= length - 2
        assert third.stats["prompt_tokens"] < 8


def test_a_short_question_does_not_wait_for_a_long_prompt(
    embedded_cpu_pte: Path, cpp_build: Path
) -> None:
    """The first token of the long one takes dozens of calls; the short one takes part in each."""
    with Engine(Runner(embedded_cpu_pte), prompt_rows=16) as engine:
        long = engine.submit(LONG * 4, max_new_tokens=2)
        short = engine.submit("Why?", max_new_tokens=5)
        short.text()
        long.text()
    assert short.stats["ttft_s"] + short.stats["decode_s"] < long.stats["ttft_s"]


def test_more_requests_than_places(embedded_cpu_pte: Path, cpp_build: Path) -> None:
    with Engine(Runner(embedded_cpu_pte), sequences=1, queue_size=2) as engine:
        first = engine.submit("a", max_new_tokens=400)
        next(iter(first))  # it has left the queue
        waiting = [engine.submit("b", max_new_tokens=2) for _ in range(2)]
        with pytest.raises(RunnerError, match="the queue is full: 2 requests wait; try again"):
            engine.submit("c")
        waiting[0].cancel()
        assert waiting[0].text() == ""
        assert waiting[0].stats["stop_reason"] == "interrupted"
        first.cancel()
        first.text()
        assert first.stats["stop_reason"] == "interrupted"
        waiting[1].text()
        assert waiting[1].stats["stop_reason"] in ("length", "eos")


def test_a_free_place_is_no_queue(embedded_cpu_pte: Path, cpp_build: Path) -> None:
    """Requests that come between two steps fill the places first."""
    held, go = threading.Event(), threading.Event()

    def hold() -> None:  # in the engine's thread, which takes no step then
        held.set()
        go.wait()

    with Engine(Runner(embedded_cpu_pte), sequences=3, queue_size=1) as engine:
        work = [engine.submit("a", max_new_tokens=2, on_event=hold)]
        try:
            held.wait()
            work += [engine.submit("b", max_new_tokens=2) for _ in range(3)]
            with pytest.raises(RunnerError, match="the queue is full: 1 requests wait; try again"):
                engine.submit("c")
        finally:
            go.set()
        assert all(generation.text() is not None for generation in work)


def test_requests_from_many_threads(embedded_cpu_pte: Path, cpp_build: Path) -> None:
    runner = Runner(embedded_cpu_pte)
    expected = ["".join(runner.generate(f"x{i} = ", max_new_tokens=12)) for i in range(24)]
    found: dict[int, str] = {}
    with Engine(runner, sequences=4) as engine:

        def ask(i: int) -> None:
            generation = engine.submit(f"x{i} = ", max_new_tokens=12)
            if i % 5 == 4:
                generation.cancel()
            found[i] = generation.text()

        threads = [threading.Thread(target=ask, args=[i]) for i in range(24)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    for i, text in enumerate(expected):
        assert text.startswith(found[i]) if i % 5 == 4 else found[i] == text


def test_closing_ends_what_is_at_work(embedded_cpu_pte: Path, cpp_build: Path) -> None:
    runner = Runner(embedded_cpu_pte)
    engine = Engine(runner, sequences=1)
    work = [engine.submit("a", max_new_tokens=1000) for _ in range(3)]
    next(iter(work[0]))
    with pytest.raises(RunnerError, match="generating already"):
        runner.truncate(0)
    engine.close()
    for generation in work:
        generation.text()
        assert generation.stats["stop_reason"] == "interrupted"
    with pytest.raises(RunnerError, match="this Engine is closed"):
        engine.submit("a")
    assert len("".join(runner.generate("a", max_new_tokens=3))) > 0
    other = Engine(runner)
    left = other.submit("a", max_new_tokens=1000)
    runner.close()  # closes the engine first
    left.text()
    assert left.stats["stop_reason"] == "interrupted"


def test_one_that_is_dropped_lets_its_runner_go(embedded_cpu_pte: Path, cpp_build: Path) -> None:
    runner = Runner(embedded_cpu_pte)
    expected = "".join(runner.generate("a", max_new_tokens=40))
    engine = Engine(runner)
    assert engine.submit("a", max_new_tokens=40).text() == expected
    del engine
    assert "".join(runner.generate("a", max_new_tokens=40)) == expected
    # What is at work when it is dropped ends as it would have, read or not.
    left = Engine(runner, sequences=1).submit("a", max_new_tokens=40)
    Engine.submit(Engine(Runner(embedded_cpu_pte)), "a", max_new_tokens=40)
    assert left.text() == expected
    freed = weakref.ref(runner)
    del runner
    wait_for(lambda: freed() is None)
    wait_for(lambda: all(thread.name != "thimble-engine" for thread in threading.enumerate()))


def test_its_own_thread_cannot_close_it(embedded_cpu_pte: Path, cpp_build: Path) -> None:
    said: list[str] = []
    with Engine(Runner(embedded_cpu_pte)) as engine:

        def close() -> None:
            try:
                engine.close()
            except RunnerError as error:
                said.append(str(error))

        assert engine.submit("a", max_new_tokens=2, on_event=close).text() is not None
        assert engine.submit("a", max_new_tokens=2).text() is not None
    assert set(said) == {"an on_event cannot close its Engine: close it in another thread"}


def test_what_a_callback_raises_is_raised_at_the_end(
    embedded_cpu_pte: Path, cpp_build: Path
) -> None:
    calls: list[int] = []

    def fail() -> None:
        calls.append(1)
        raise ValueError("of the callback")

    with Engine(Runner(embedded_cpu_pte)) as engine:
        broken = engine.submit("def", max_new_tokens=6, on_event=fail)
        with pytest.raises(ValueError, match="of the callback"):
            broken.text()
        assert broken.stats is not None and broken.stats["generated_tokens"] == 6
        with pytest.raises(RunnerError, match="on_event is 5, but must be a function"):
            engine.submit("def", on_event=5)  # type: ignore[arg-type]
        with pytest.raises(RunnerError, match="or close its Engine"):
            engine.runner.logits([1])
    assert len(calls) == 1


def test_what_is_not_possible(embedded_cpu_pte: Path, stories_pte: Path, cpp_build: Path) -> None:
    with pytest.raises(RunnerError, match="cannot run several sequences.*--delegate cpu"):
        Engine(Runner(stories_pte))
    for wrong in ({"sequences": 0}, {"sequences": 33}, {"queue_size": 0}, {"prompt_rows": 0}):
        with pytest.raises(RunnerError, match="must be from 1 to"):
            Engine(Runner(embedded_cpu_pte), **wrong)
    with Engine(Runner(embedded_cpu_pte)) as engine:
        with pytest.raises(RunnerError, match="context"):
            engine.submit(LONG * 100)
        with pytest.raises(RunnerError, match="temperature is -1"):
            engine.submit("a", temperature=-1)
        with pytest.raises(RunnerError, match="no tokens"):
            engine.submit([])
        with pytest.raises(RunnerError, match="token 70000.* not one of the model's"):
            engine.submit([1, 70000])
