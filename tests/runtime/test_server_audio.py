"""The server of a model that hears, as OpenAI's own client sees it."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest
from support.hearing import RATE, run, spoken, write_wav
from support.servers import Server, serving

from runtime import Segment, Transcriber, Transcription
from runtime.subtitles import subtitles

pytestmark = pytest.mark.check

Model = tuple[Path, Any]
SECONDS = 6.5


@pytest.fixture(scope="module")
def server(hearing_model: Model, stories_cpu_pte: Path, cpp_build: Path) -> Iterator[Server]:
    """Beside a model that answers."""
    limits = ["--max-sound", "500000", "--max-sound-seconds", "60"]
    with serving(f"ears={hearing_model[0]}", f"words={stories_cpu_pte}", *limits) as found:
        yield found


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_wav(tmp_path_factory.mktemp("sound") / "x.wav", spoken(SECONDS, 500))


@pytest.fixture(scope="module")
def right(hearing_model: Model, sound: Path, cpp_build: Path) -> dict[bool, Transcription]:
    """Without timestamps, and with them."""
    with Transcriber(hearing_model[0]) as heard:
        return {timed: heard.transcribe(sound, timestamps=timed) for timed in (False, True)}


def test_forms_of_a_transcription(
    server: Server,
    sound: Path,
    right: dict[bool, Transcription],
    hearing_model: Model,
    cpp_build: Path,
) -> None:
    create = server.client().audio.transcriptions.create
    given: dict[str, Any] = {"model": "ears", "file": sound}
    plain = create(**given)
    assert plain.text == right[False].text and plain.usage.seconds == 7
    assert create(**given, response_format="text") == right[False].text + "\n"
    whole = create(**given, response_format="verbose_json", timestamp_granularities=["segment"])
    assert (whole.language, whole.duration) == (right[True].language, SECONDS)
    assert whole.text == right[True].text and len(whole.segments) > 3
    for index, (segment, one) in enumerate(zip(whole.segments, right[True].segments, strict=True)):
        assert (segment.id, segment.text, tuple(segment.tokens)) == (index, one.text, one.tokens)
        assert (segment.start, segment.end) == pytest.approx((one.start, one.end), abs=0.01)
        assert segment.seek == round(100 * one.window)
        assert segment.avg_logprob == one.avg_logprob and segment.temperature == one.temperature
    assert whole.words is None
    by_word = create(
        **given, response_format="verbose_json", timestamp_granularities=["word", "segment"]
    )
    assert by_word.segments == whole.segments and len(by_word.words) > 3
    said = "".join(one.word for one in by_word.words)
    assert said == "".join(whole.text.split())
    assert by_word.words[-1].end <= SECONDS
    for form in ("srt", "vtt"):
        printed = run(cpp_build, hearing_model[0], "--audio", sound, "--format", form).stdout
        assert create(**given, response_format=form) == printed and " --> " in printed


def test_a_subtitle_is_one_block(cpp_build: Path) -> None:
    """Whatever is in its text: neither another arrow nor the end of a line."""
    segments = [
        Segment(start, start + 1.5, 0, text, (1,), 0, -1, 1, 0)
        for start, text in ((0, " a --->\r\n2 --> b"), (3599.9996, "<c> & ä\0"))
    ]
    srt = "1\n00:00:00,000 --> 00:00:01,500\na --- >  2 -- > b\n\n"
    srt += "2\n01:00:00,000 --> 01:00:01,500\n<c> & ä\0\n\n"
    vtt = "WEBVTT\n\n00:00:00.000 --> 00:00:01.500\na ---&gt;  2 --&gt; b\n\n"
    vtt += "01:00:00.000 --> 01:00:01.500\n&lt;c&gt; &amp; ä\0\n\n"
    assert (subtitles("srt", segments), subtitles("vtt", segments)) == (srt, vtt)
    assert (subtitles("srt", []), subtitles("vtt", [])) == ("", "WEBVTT\n\n")


def test_streams(server: Server, sound: Path, right: dict[bool, Transcription]) -> None:
    events = list(
        server.client().audio.transcriptions.create(model="ears", file=sound, stream=True)
    )
    *deltas, done = events
    assert [event.type for event in deltas] == ["transcript.text.delta"] * len(deltas)
    assert "".join(event.delta for event in deltas) == done.text == right[False].text
    assert done.type == "transcript.text.done" and len(deltas) > 2


@pytest.mark.filterwarnings("ignore:deprecated")  # by the client, of translations
def test_options(server: Server, sound: Path, hearing_model: Model) -> None:
    client = server.client()
    with Transcriber(hearing_model[0]) as heard:
        for options in ({"language": "de"}, {"prompt": "Thimble"}, {"temperature": 0.3}):
            answer = client.audio.transcriptions.create(model="ears", file=sound, **options)
            assert answer.text == heard.transcribe(sound, **options).text
        english = client.audio.translations.create(model="ears", file=sound)
        assert english.text == heard.transcribe(sound, task="translate").text


def test_what_is_refused(server: Server, sound: Path, tmp_path: Path) -> None:
    address = server.address + "/v1/audio/transcriptions"
    data = sound.read_bytes()
    slow = bytearray(data)
    slow[24:28] = (1).to_bytes(4, "little")  # a sample a second
    files: list[tuple[dict[str, str], bytes | None, int, str]] = [
        ({"model": "ears"}, None, 400, "file is missing"),
        ({"model": "ears"}, b"no sound", 400, "the sound is not a WAV file"),
        ({"model": "ears"}, b"", 400, "the sound is not a WAV file"),
        ({"model": "ears"}, bytes(slow), 400, "the sound has more than 60 seconds"),
        ({"model": "ears"}, data + bytes(500000), 413, "file has more than 500000 bytes"),
        ({"model": "ears"}, data + bytes(2 << 20), 413, "the body has more than"),
        ({"model": "ears", "language": "xx"}, data, 400, "does not know the language 'xx'"),
        ({"model": "ears", "temperature": "hot"}, data, 400, 'temperature is "hot", but must be'),
        (
            {"model": "ears", "temperature": "3"},
            data,
            400,
            'temperature is "3", but must be at most 1',
        ),
        ({"model": "ears", "response_format": "ass"}, data, 400, 'response_format is "ass"'),
        (
            {"model": "ears", "timestamp_granularities[]": "word"},
            *(data, 400, "timestamp_granularities needs response_format verbose_json"),
        ),
        (
            {"model": "ears", "response_format": "srt", "stream": "true"},
            *(data, 400, "a stream has json or text"),
        ),
        (
            {"model": "ears", "chunking_strategy[type]": "server_vad"},
            *(data, 400, "chunking_strategy must be 'auto'"),
        ),
        (
            {"model": "ears", "include[]": "logprobs"},
            *(data, 400, "include is not supported"),
        ),
        (
            {"model": "ears", "chunking_strategy": "auto", "chunking_strategy[type]": "server_vad"},
            *(data, 400, "chunking_strategy twice"),
        ),
        ({"model": "words"}, data, 400, "'words' is a model that answers, and does not hear"),
        ({"model": "none"}, data, 404, "none"),
        ({}, data, 400, "model is missing"),
    ]
    for fields, content, status, sentence in files:
        given = {"file": ("x.wav", content)} if content is not None else {"x": ("x", b"")}
        answer = httpx.post(address, data=fields, files=given, timeout=120)
        told = answer.json()["error"]["message"]
        assert answer.status_code == status and sentence in told, (fields, told)
    raw = {"Content-Type": "multipart/form-data; boundary=b"}
    field = b'--b\r\nContent-Disposition: form-data; name="a"\r\n\r\n1\r\n'
    for body, sentence in {
        b"--b\r\nContent-Disposition: form-data; name=model\r\n\r\nears": "the form is cut off",
        b"--b\r\n\r\n\r\n--b--\r\n": "cannot be read",
        b"nothing of a form": "cannot be read",
        b"".join([2 * field, b"--b--\r\n"]): "a twice",
        b"".join([field.replace(b'"a"', b'"file"'), b"--b--\r\n"]): "file is text",
    }.items():
        answer = httpx.post(address, content=body, headers=raw)
        assert answer.status_code == 400 and sentence in answer.json()["error"]["message"], body
    assert httpx.post(address, json={"model": "ears"}).status_code == 415
    assert httpx.post(address, content=b"", headers={"Content-Type": "multipart/form-data"})
    with pytest.raises(openai.BadRequestError, match="'ears' is a model that hears, which does"):
        server.client().completions.create(model="ears", prompt="a")
    with pytest.raises(openai.BadRequestError, match="'ears' is a model that hears, and has no"):
        server.client().embeddings.create(model="ears", input="a")


def test_what_is_known_of_it(server: Server) -> None:
    """The most tokens of a window's text are its context."""
    props = httpx.get(server.address + "/props?model=ears").json()
    assert props["default_generation_settings"]["n_ctx"] == 30
    shown = httpx.post(server.address + "/api/show", json={"model": "ears"}).json()
    assert shown["model_info"]["whisper.context_length"] == 30
    assert shown["capabilities"] == ["transcription"]


def test_a_client_that_leaves_ends_the_work(server: Server, sound: Path, tmp_path: Path) -> None:
    """Others are answered behind it, and it is the model's process that stays."""
    process = server.model_processes()
    long = write_wav(tmp_path / "x.wav", spoken(7.5, 500))
    with pytest.raises(httpx.ReadTimeout):
        httpx.post(
            server.address + "/v1/audio/transcriptions",
            data={"model": "ears"},
            files={"file": long.read_bytes()},
            timeout=0.05,
        )
    client = server.client()
    first = client.audio.transcriptions.create(model="ears", file=sound).text
    assert first == client.audio.transcriptions.create(model="ears", file=sound).text
    assert server.model_processes() == process
    assert RATE == 16000
