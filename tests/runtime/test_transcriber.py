"""Models that hear, from Python: what the runner writes, of files, bytes and arrays."""

import os
import signal
import threading
from dataclasses import replace
from operator import attrgetter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.hearing import RATE, spoken, transcribe, write_wav

from runtime import RunnerError, Segment, Transcriber

Model = tuple[Path, Any]


@pytest.fixture(scope="module")
def heard(hearing_model: Model, cpp_build: Path) -> Transcriber:
    return Transcriber(hearing_model[0])


def test_files_bytes_and_arrays(
    heard: Transcriber, hearing_model: Model, cpp_build: Path, tmp_path: Path
) -> None:
    samples = spoken(4.5, 500)
    path = write_wav(tmp_path / "x.wav", samples)
    right = transcribe(cpp_build, hearing_model[0], "--audio", path, "--timestamps")
    told: list[Segment] = []
    whole = heard.transcribe(path, timestamps=True, fallback=False, on_segment=told.append)
    assert whole.text == right["text"] and whole.language == right["language"]
    assert whole.duration == 4.5 and list(whole.segments) == told
    assert [list(one.tokens) for one in told] == [one["tokens"] for one in right["segments"]]
    assert [one.start for one in told] == pytest.approx([s["start"] for s in right["segments"]])
    by_word = heard.transcribe(path, timestamps="word", fallback=False)
    assert [replace(one, words=()) for one in by_word.segments] == told
    for one in by_word.segments:
        assert "".join(word.text for word in one.words) == one.text
        assert [*map(attrgetter("start"), one.words)] == sorted(word.start for word in one.words)
    in_16_bits = np.round(samples * 32767).astype("i2")
    for sound in (
        *(path.read_bytes(), samples, samples.astype(">f8")),
        *(np.stack([samples, samples], axis=1), np.repeat(samples, 2)[::2]),
    ):
        again = heard.transcribe(sound, timestamps=True, fallback=False)
        assert again.segments == whole.segments
    assert heard.transcribe(in_16_bits, fallback=False).duration == 4.5
    half = heard.transcribe(samples[::2].copy(), rate=RATE // 2, fallback=False)
    assert half.duration == 4.5


def test_options(heard: Transcriber) -> None:
    samples = spoken(1.3, 500)
    assert heard.languages == ("en", "de")
    plain = heard.transcribe(samples, fallback=False)
    german = heard.transcribe(samples, language="de", fallback=False)
    assert german.language == "de" and plain.segments[0].temperature == 0
    for options in ({"prompt": "Thimble"}, {"task": "translate"}, {"temperature": 0.8}):
        other = heard.transcribe(samples, language="de", fallback=False, **options)  # type: ignore[arg-type]
        assert other.text != german.text, options

    def fail(segment: Segment) -> None:
        raise KeyError(segment.text)

    with pytest.raises(KeyError):
        heard.transcribe(samples, fallback=False, on_segment=fail)
    heard.interrupt()
    cut = heard.transcribe(samples, fallback=False)
    heard.interrupt(False)
    assert sum(len(one.tokens) for one in cut.segments) <= 1
    assert heard.transcribe(samples, fallback=False) == plain


def test_on_segment_may_not_wait_for_its_own_call(heard: Transcriber) -> None:
    samples = spoken(1.3, 500)
    with pytest.raises(RunnerError, match="at work"):
        heard.transcribe(samples, fallback=False, on_segment=lambda _: heard.transcribe(samples))
    with pytest.raises(RunnerError, match="at work"):
        heard.transcribe(samples, fallback=False, on_segment=lambda _: heard.close())
    assert heard.transcribe(samples, fallback=False).segments


def test_ctrl_c_ends_the_call_and_is_raised(heard: Transcriber) -> None:
    seen: list[Segment] = []

    def press(segment: Segment) -> None:
        seen.append(segment)
        signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        heard.transcribe(spoken(60, 500), fallback=False, on_segment=press)
    waiting = threading.Timer(0.1, signal.raise_signal, [signal.SIGINT])
    with pytest.raises(KeyboardInterrupt):  # while the library is at work
        waiting.start()
        while True:
            heard.transcribe(spoken(1.3, 500), fallback=False)
    waiting.join()
    assert len(seen) == 1 and heard.transcribe(spoken(1.3, 500), fallback=False).segments
    heard.interrupt()  # before the loudest sample of the sound is looked for
    assert heard.transcribe(np.full(RATE, np.nan, "f4")).segments == ()
    heard.interrupt(False)


def test_what_is_refused(heard: Transcriber, stories_cpu_pte: Path, tmp_path: Path) -> None:
    samples = spoken(0.5, 500)
    (tmp_path / "text.wav").write_text("no sound at all")
    os.mkfifo(tmp_path / "fifo")
    refused: dict[str, tuple[Any, dict[str, Any]]] = {
        "does not know the language 'xx': it knows en, de": (samples, {"language": "xx"}),
        "task is 'sing', but must be": (samples, {"task": "sing"}),
        "timestamps is 'letter', but must be": (samples, {"timestamps": "letter"}),
        "temperature is 2, but must be from 0.0 to 1.0": (samples, {"temperature": 2}),
        "rate is 0, but must be from 1": (samples, {"rate": 0}),
        "an array of complex64, but must be of uint8": (samples.astype("c8"), {}),
        r"an array of shape \(0,\)": (samples[:0], {}),
        r"an array of shape \(10, 65\)": (np.zeros((10, 65), "f4"), {}),
        "the sound is a list, but must be": ([0.0], {}),
        "text.wav is not a WAV file": (tmp_path / "text.wav", {}),
        "fifo is not a file: name one": (tmp_path / "fifo", {}),
        "no.wav: No such file": (tmp_path / "no.wav", {}),
        "the sound is not a WAV file": (b"", {}),
        "the sound has more than 1 seconds": (spoken(1.5, 500), {"max_seconds": 1}),
        "samples that are not finite": (np.full(RATE, np.nan, "f4"), {}),
    }
    for sentence, (sound, options) in refused.items():
        with pytest.raises(RunnerError, match=sentence):
            heard.transcribe(sound, **options)
    with pytest.raises(RunnerError, match="is a language model"):
        Transcriber(stories_cpu_pte)
