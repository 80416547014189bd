"""Sound that arrives at the server, as OpenAI's own client sends it."""

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from socket import create_connection
from typing import Any

import httpx
import numpy as np
import pytest
from support.hearing import RATE, spoken, write_wav
from support.servers import Server, serving, wait_for

from runtime import Transcriber
from runtime.agreed_text import AgreedText

pytestmark = pytest.mark.check

websockets = pytest.importorskip("websockets.sync.client")

KEY = "secret"
HEADERS = {"Authorization": f"Bearer {KEY}"}
TEXT = "conversation.item.input_audio_transcription"
UPDATE = {"type": "transcription", "audio": {"input": {"format": {"type": "audio/pcm"}}}}
UPDATE["audio"]["input"]["format"]["rate"] = RATE  # type: ignore[index]


@pytest.fixture(scope="module")
def server(streaming_model: Path, cpp_build: Path) -> Iterator[Server]:
    with serving(f"ears={streaming_model}", "--api-key", KEY, "--threads", "1") as found:
        yield found


def pieces(seconds: float, pitch: float, step: float = 0.4) -> list[bytes]:
    samples = (spoken(seconds, pitch) * 2**15).astype("<i2")
    size = int(step * RATE)
    return [samples[at : at + size].tobytes() for at in range(0, len(samples), size)]


def connect(server: Server, path: str = "/v1/realtime?model=ears", **given: Any) -> Any:
    options = {"additional_headers": HEADERS, **given}
    return websockets.connect(server.address.replace("http", "ws") + path, **options)


def tell(socket: Any, type: str, **fields: Any) -> dict[str, Any]:
    """Sends an event, and returns the next one that comes."""
    socket.send(json.dumps({"type": type, **fields}))
    return json.loads(socket.recv(timeout=120))


def append(socket: Any, samples: bytes) -> None:
    audio = base64.b64encode(samples).decode()
    socket.send(json.dumps({"type": "input_audio_buffer.append", "audio": audio}))


def test_openais_client_hears_text_while_sound_arrives(
    server: Server, streaming_model: Path
) -> None:
    """Final texts are those of the complete sound; words come before them, and stay."""
    sound = pieces(7.3, 900)
    with Transcriber(streaming_model) as transcriber:
        arrays = [np.frombuffer(piece, "<i2") for piece in sound]
        parts = list(transcriber.stream(arrays))
    right, agreed = [], AgreedText()
    for part in parts:
        text = part.segment.text.removeprefix(" ")
        (agreed.end if part.is_final else agreed.more)(text)
        if part.is_final:
            right.append(text)
    assert len(right) > 1
    query = {"intent": "transcription"}
    with server.client(KEY).realtime.connect(model="ears", extra_query=query) as connection:
        assert connection.recv().type == "session.created"
        connection.session.update(session=UPDATE)  # type: ignore[arg-type]
        assert connection.recv().session.audio.input.format.rate == RATE
        for _ in range(2):  # a second sound is like the first
            for piece in sound:
                audio = base64.b64encode(piece).decode()
                connection.input_audio_buffer.append(audio=audio)
            connection.input_audio_buffer.commit()
            told, deltas, item = [], "", ""
            while len(told) < len(right):
                event: Any = connection.recv()
                if event.type == TEXT + ".delta":
                    assert item in ("", event.item_id)
                    item, deltas = event.item_id, deltas + event.delta
                elif event.type == TEXT + ".completed":
                    assert item in ("", event.item_id)
                    told.append(event.transcript)
                    assert event.transcript.startswith(deltas) or deltas
                    item = deltas = ""
                else:
                    assert event.type == "input_audio_buffer.committed", event
            assert told == right


def test_words_that_two_texts_agree_on() -> None:
    text = AgreedText()
    assert [text.more(one) for one in ("a b", "a b c", "a b c", "a x c d")] == ["", "a b", "", ""]
    assert text.end("a b c d") == " c d"
    assert text.more("a") == "" and text.more("a b") == "a" and text.end("c") == ""
    assert text.end("a") == "a"


def test_silence_has_a_text_without_words(server: Server) -> None:
    with connect(server, "/openai/v1/realtime?model=ears") as socket:
        assert json.loads(socket.recv())["type"] == "session.created"
        append(socket, bytes(2 * RATE))
        committed = tell(socket, "input_audio_buffer.commit")
        assert committed["type"] == "input_audio_buffer.committed"
        completed = json.loads(socket.recv(timeout=120))
        assert completed["type"] == TEXT + ".completed" and completed["transcript"] == ""
        assert completed["item_id"] == committed["item_id"]
        number = socket.response.headers["x-request-id"]
    wait_for(lambda: any(f"request {number}, model ears" in line for line in server.said))
    counted = 'thimble_requests_total{model="ears",path="/v1/realtime",status="101"}'
    assert counted in httpx.get(server.address + "/metrics", headers=HEADERS).text


def test_what_is_refused(server: Server) -> None:
    """An error ends neither the connection nor the sound."""
    with connect(server) as socket:
        socket.recv()
        append(socket, pieces(0.5, 500)[0])
        turns: list[tuple[str, dict[str, Any], str]] = [
            ("response.create", {}, "but must be 'session.update'"),
            ("input_audio_buffer.append", {"audio": "*"}, "audio is not base64"),
            ("input_audio_buffer.append", {"audio": "AAAA"}, "ends within a sample"),
            ("session.update", {"session": UPDATE}, "commit or clear it before"),
        ]
        for type, fields, sentence in turns:
            told = tell(socket, type, **fields)
            assert told["type"] == "error" and sentence in told["error"]["message"], told
        socket.send(b"1")
        assert "text, not bytes" in json.loads(socket.recv(timeout=120))["error"]["message"]
        assert tell(socket, "input_audio_buffer.clear")["type"] == "input_audio_buffer.cleared"
        told = tell(socket, "input_audio_buffer.commit")
        assert "no sound to commit" in told["error"]["message"]
        detection = {"turn_detection": {"type": "server_vad"}}
        for given, sentence in (
            (detection, "turn_detection is not supported"),
            ({"format": {"type": "audio/pcmu"}}, "must be 'audio/pcm'"),
            ({"transcription": {"model": "none"}}, "there is no model 'none'"),
        ):
            told = tell(socket, "session.update", session={"audio": {"input": given}})
            assert told["type"] == "error" and sentence in told["error"]["message"], told
    foreign = {**HEADERS, "Origin": "http://example.com"}
    for headers, status in (({}, 401), (foreign, 403)):
        with pytest.raises(Exception, match=f"HTTP {status}"):
            connect(server, additional_headers=headers)
    port = int(server.address.rpartition(":")[2])
    with pytest.raises(Exception, match="HTTP 421"):
        rebound = f"ws://example.com:{port}/v1/realtime"
        sock = create_connection(("127.0.0.1", port))
        websockets.connect(rebound, additional_headers=HEADERS, sock=sock)
    own = {"Origin": server.address}
    protocols = ["realtime", f"openai-insecure-api-key.{KEY}"]
    with connect(server, additional_headers=own, subprotocols=protocols) as socket:
        assert socket.subprotocol == "realtime"
    answer = httpx.get(server.address + "/v1/realtime", headers=HEADERS)
    assert answer.status_code == 426 and "WebSocket" in answer.json()["error"]["message"]


def test_a_client_that_leaves_frees_the_model(server: Server, tmp_path: Path) -> None:
    """Whole sounds are heard after it, by the same process."""
    processes = server.model_processes()
    with connect(server) as socket:
        socket.recv()
        for piece in pieces(3, 500):
            append(socket, piece)
        socket.socket.close()
    sound = write_wav(tmp_path / "x.wav", spoken(2, 500))
    answer = server.client(KEY).audio.transcriptions.create(model="ears", file=sound)
    assert answer.text and server.model_processes() == processes
