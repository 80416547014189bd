"""Pictures in each interface of the server."""

import asyncio
import base64
import ipaddress
import ssl
import subprocess
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest
from support import seeing_models as models
from support.pictures import picture, png
from support.servers import Server, serving

from runtime import Runner
from runtime.server.image_hosts import ImageHosts, UnreadableImageError, is_public

pytest.importorskip("transformers")
TOKENS = 10
IMAGE = png(picture(40, 30))
BASE64 = base64.b64encode(IMAGE).decode()
URL = f"data:image/png;base64,{BASE64}"


@pytest.fixture(scope="module")
def server(
    seeing_model: tuple[Path, Any, Path], stories_cpu_pte: Path, cpp_build: Path
) -> Iterator[Server]:
    """Beside a model that does not see."""
    models_of_it = [f"eyes={seeing_model[0]}", f"words={stories_cpu_pte}"]
    with serving(*models_of_it, "--threads", "1", "--max-images", "200000") as found:
        yield found


def post(server: Server, path: str, body: dict[str, Any]) -> httpx.Response:
    return httpx.post(server.address + path, json=body, timeout=300)


def asked(*urls: str, text: str = "What?", model: str = "eyes") -> dict[str, Any]:
    images = [{"type": "image_url", "image_url": {"url": url}} for url in urls]
    content = [*images, {"type": "text", "text": text}]
    messages = [{"role": "user", "content": content}]
    return {"model": model, "messages": messages, "max_tokens": TOKENS, "temperature": 0}


def test_each_interface_takes_a_picture(
    server: Server, seeing_model: tuple[Path, Any, Path], cpp_build: Path
) -> None:
    with Runner(seeing_model[0], threads=1) as runner:
        parts: Any = [{"image": IMAGE}, "What?"]
        right = "".join(runner.generate(parts, max_new_tokens=TOKENS, temperature=0))
        count = runner.stats["prompt_tokens"]
    first = post(server, "/v1/chat/completions", asked(URL)).json()
    assert first["choices"][0]["message"]["content"] == right
    assert first["usage"]["prompt_tokens"] == count
    text = {"type": "text", "text": "What?"}
    source = {"type": "base64", "media_type": "image/png", "data": BASE64}
    message = {"role": "user", "content": [{"type": "image", "source": source}, text]}
    body = {"model": "eyes", "messages": [message], "max_tokens": TOKENS, "temperature": 0}
    assert post(server, "/v1/messages", body).json()["content"] == [{"type": "text", "text": right}]
    counted = {"model": "eyes", "messages": [message]}
    told = post(server, "/v1/messages/count_tokens", counted).json()
    assert told == {"input_tokens": count}
    item = {
        "role": "user",
        "content": [
            {"type": "input_image", "image_url": URL, "detail": "auto"},
            {"type": "input_text", "text": "What?"},
        ],
    }
    body = {"model": "eyes", "input": [item], "max_output_tokens": TOKENS, "temperature": 0}
    told = post(server, "/v1/responses", body).json()
    assert told["output"][0]["content"][0]["text"] == right
    # The same picture is not read again, also if the question goes on.
    assert told["usage"]["input_tokens_details"]["cached_tokens"] > models.ROWS * 10
    options = {"temperature": 0, "num_predict": TOKENS}
    base = {"model": "eyes", "stream": False, "options": options}
    turn = {"role": "user", "content": "What?", "images": [BASE64]}
    told = post(server, "/api/chat", {**base, "messages": [turn]}).json()
    assert told["message"]["content"] == right
    told = post(server, "/api/generate", {**base, "prompt": "What?", "images": [BASE64]}).json()
    assert told["response"] == right
    alone = post(server, "/api/generate", {**base, "images": [BASE64]}).json()
    assert alone["done_reason"] == "length" and alone["prompt_eval_count"] == count - len("What?")
    assert "vision" in post(server, "/api/show", {"model": "eyes"}).json()["capabilities"]


def test_results_of_functions_have_pictures(server: Server) -> None:
    base = {"model": "eyes", "temperature": 0}
    parts = [{"type": "image_url", "image_url": {"url": URL}}, {"type": "text", "text": "seen"}]
    function = {"name": "look", "arguments": "{}"}
    called = {
        "role": "assistant",
        "content": "I look.",
        "tool_calls": [{"id": "c", "type": "function", "function": function}],
    }
    result = {"role": "tool", "tool_call_id": "c", "content": parts}
    turns: list[dict[str, Any]] = [{"role": "user", "content": "Look."}, called, result]
    body = {**base, "messages": turns, "max_tokens": TOKENS}
    told = post(server, "/v1/chat/completions", body).json()
    right, count = told["choices"][0]["message"]["content"], told["usage"]["prompt_tokens"]
    assert count > models.ROWS * 10
    output = [{"type": "input_image", "image_url": URL}, {"type": "input_text", "text": "seen"}]
    item = {"type": "function_call_output", "call_id": "c", "output": output}
    call = {"type": "function_call", "call_id": "c", **function}
    said = {"role": "assistant", "content": "I look."}
    asked_items = [{"role": "user", "content": "Look."}, said, call, item]
    body = {**base, "input": asked_items, "max_output_tokens": TOKENS}
    told = post(server, "/v1/responses", body).json()
    assert told["output"][0]["content"][0]["text"] == right
    source = {"type": "base64", "media_type": "image/png", "data": BASE64}
    blocks = [{"type": "image", "source": source}, {"type": "text", "text": "seen"}]
    block = {"type": "tool_result", "tool_use_id": "c", "content": blocks}
    use = {"type": "tool_use", "id": "c", "name": "look", "input": {}}
    turns = [
        {"role": "user", "content": "Look."},
        {"role": "assistant", "content": [{"type": "text", "text": "I look."}, use]},
        {"role": "user", "content": [block]},
    ]
    told = post(server, "/v1/messages", {**base, "messages": turns, "max_tokens": TOKENS}).json()
    assert told["content"] == [{"type": "text", "text": right}]
    shown = {"role": "tool", "content": "seen", "images": [BASE64]}
    options = {"temperature": 0, "num_predict": TOKENS}
    calls = [{"function": {"name": "look", "arguments": {}}}]
    asked_turns = [
        {"role": "user", "content": "Look."},
        {"role": "assistant", "content": "I look.", "tool_calls": calls},
        shown,
    ]
    body = {"model": "eyes", "stream": False, "options": options, "messages": asked_turns}
    told = post(server, "/api/chat", body).json()
    assert (told["message"]["content"], told["prompt_eval_count"]) == (right, count)


def test_what_is_refused(server: Server, tmp_path: Path) -> None:
    """In one sentence, in the form of each interface; nothing is lost."""
    shown = IMAGE[: len(IMAGE) // 2]
    huge = b"P6\n20000 20000\n255\n" + bytes(20)
    moving = _moving()

    def url(data: bytes) -> str:
        return "data:image/png;base64," + base64.b64encode(data).decode()

    refused: dict[str, tuple[str, ...]] = {
        "is not a data URL": ("file:///etc/passwd",),
        "is not a data URL, such as": ("/etc/passwd",),
        "unless it is started with --allow-image-hosts": ("https://example.com/a.png",),
        "is not base64": ("data:image/png;base64,?",),
        "is a data URL without base64": ("data:image/png,abc",),
        "is not a picture that is read": (url(b"a text, and no picture at all"),),
        "is cut off": (url(shown),),
        "at most 100 million are read": (url(huge),),
        "anim": (url(moving),),
        "positions: pass fewer or smaller ones": tuple(40 * [URL]),
        "the pictures have more than 200000 bytes": (url(bytes(200_001)),),
    }
    for sentence, urls in refused.items():
        answer = post(server, "/v1/chat/completions", asked(*urls))
        assert answer.status_code in (400, 413), answer.text
        assert sentence in answer.json()["error"]["message"], answer.text
    answer = post(server, "/v1/chat/completions", asked(URL, model="words"))
    assert "'words' does not see: leave the pictures out" in answer.json()["error"]["message"]
    source = {"type": "base64", "media_type": "image/png", "data": BASE64}
    message = {"role": "user", "content": [{"type": "image", "source": source}]}
    body: dict[str, Any] = {"model": "words", "messages": [message], "max_tokens": 1}
    told = post(server, "/v1/messages", body).json()
    assert told["type"] == "error" and "does not see" in told["error"]["message"]
    turn = {"role": "user", "content": "What?", "images": [BASE64]}
    told = post(server, "/api/chat", {"model": "words", "messages": [turn]}).json()
    assert "does not see" in told["error"]
    bad = {"role": "user", "content": "What?", "images": [BASE64, "?"]}
    told = post(server, "/api/chat", {"model": "eyes", "messages": [bad]}).json()
    assert told["error"] == "picture 2 is not base64"  # not by a field that Ollama does not have
    guess = {"type": "content", "content": asked(URL)["messages"][0]["content"]}
    answer = post(server, "/v1/chat/completions", {**asked(URL), "prediction": guess})
    assert answer.status_code == 400
    assert "a prediction has parts of text alone" in answer.json()["error"]["message"]
    called = {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}
    shown_part = {"type": "input_image", "image_url": URL}
    lost: dict[str, Any] = {
        "a part with text has image_url too": {
            "role": "user",
            "content": [{"type": "input_text", "text": "What?", "image_url": URL}],
        },
        "a part with image_url has text too": {
            "role": "user",
            "content": [{**shown_part, "text": "What?"}],
        },
        "is of the role assistant": {"role": "assistant", "content": [shown_part]},
        "reasoning has no pictures": {"type": "reasoning", "content": [shown_part]},
    }
    for sentence, item in lost.items():
        asked_items = [{"role": "user", "content": "Look."}, called, item]
        answer = post(server, "/v1/responses", {"model": "eyes", "input": asked_items})
        assert answer.status_code == 400, (sentence, answer.text)
        assert sentence in answer.json()["error"]["message"], answer.text
    both = {"type": "image_url", "image_url": {"url": URL}, "text": "What?"}
    body = {"model": "eyes", "messages": [{"role": "user", "content": [both]}]}
    told = post(server, "/v1/chat/completions", body).json()
    assert "a part with image_url has text too" in told["error"]["message"]
    tokens = {"model": "eyes", "prompt": [5, -1], "max_tokens": 1}  # rows of others' pictures
    assert post(server, "/v1/completions", tokens).status_code == 400
    one = post(server, "/v1/chat/completions", asked(url(png(picture(1, 1)))))
    assert one.status_code == 200


def _moving() -> bytes:
    import io

    data = io.BytesIO()
    frames = [picture(20, 20), picture(20, 21).resize((20, 20))]
    frames[0].save(data, "PNG", save_all=True, append_images=frames[1:])
    return data.getvalue()


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[int, ssl.SSLContext]]:
    """The port of a host of pictures, and what trusts it."""
    directory = tmp_path_factory.mktemp("host")
    key, certificate = directory / "key.pem", directory / "cert.pem"
    names = "subjectAltName=DNS:a.example,DNS:b.example"
    made = subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"),
            *("-keyout", key, "-out", certificate, "-subj", "/CN=a.example", "-addext", names),
        ],
        capture_output=True,
    )
    assert made.returncode == 0, made.stderr

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            port = self.server.server_port  # type: ignore[attr-defined]
            leads = {
                "/again": "/picture",
                "/inside": f"https://b.example:{port}/picture",
                "/plain": "http://a.example/picture",
                "/elsewhere": f"https://c.example:{port}/picture",
                "/ever": "/ever",
            }
            if self.path in leads:
                self.send_response(302)
                self.send_header("Location", leads[self.path])
                self.end_headers()
                return
            self.send_response(200 if self.path in ("/picture", "/short") else 404)
            self.send_header("Content-Length", str(len(IMAGE) + (self.path == "/short")))
            self.end_headers()
            self.wfile.write(IMAGE)

        def log_message(self, *_: object) -> None:
            pass

    web = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    web.socket = context.wrap_socket(web.socket, server_side=True)
    thread = threading.Thread(target=web.serve_forever)
    thread.start()
    yield web.server_port, ssl.create_default_context(cafile=str(certificate))
    web.shutdown()
    thread.join()
    web.server_close()


def test_pictures_of_hosts(host: tuple[int, ssl.SSLContext]) -> None:
    port, context = host
    known = {"a.example": "127.0.0.1", "b.example": "127.0.0.2", "c.example": "127.0.0.1"}
    names = [f"{name}:{port}" for name in ("a.example", "b.example")]

    def is_allowed(address: Any) -> bool:
        return str(address) == "127.0.0.1"

    hosts = ImageHosts(names, lambda name, _: [known[name]], is_allowed, context)

    def fetch(path: str, most: int = 1 << 20, of: ImageHosts = hosts) -> bytes:
        return asyncio.run(of.fetch(f"https://a.example:{port}{path}", most))

    assert fetch("/picture") == fetch("/again") == IMAGE
    for path, sentence in {
        "/inside": "the host b.example is at the private address 127.0.0.2",
        "/plain": "its URL is not https",
        "/elsewhere": "the host c.example is not among those of --allow-image-hosts",
        "/ever": "more than 3 redirects",
        "/nothing": "its host answers 404",
        "/short": "cut off",
    }.items():
        with pytest.raises(UnreadableImageError, match=sentence):
            fetch(path)
    with pytest.raises(UnreadableImageError, match="has more than 10 bytes"):
        fetch("/picture", 10)
    untrusting = ImageHosts(names, lambda *_: ["127.0.0.1"], is_allowed)
    with pytest.raises(UnreadableImageError, match="CERTIFICATE_VERIFY_FAILED"):
        fetch("/picture", of=untrusting)
    with pytest.raises(UnreadableImageError, match="is at the private address 127.0.0.1"):
        fetch("/picture", of=ImageHosts(names, lambda *_: ["127.0.0.1"]))


@pytest.mark.parametrize(
    ("address", "public"),
    [
        *(("8.8.8.8", True), ("2606:4700::1111", True), ("64:ff9b::808:808", True)),
        *(("10.0.0.1", False), ("127.0.0.1", False), ("169.254.169.254", False)),
        *(("::1", False), ("fd00::1", False), ("fe80::1", False), ("224.0.0.1", False)),
        *(("::ffff:10.0.0.1", False), ("64:ff9b::a00:1", False), ("2002:a00:1::", False)),
        *(("0.0.0.0", False), ("100.64.0.1", False), ("255.255.255.255", False)),
    ],
)
def test_private_addresses(address: str, public: bool) -> None:
    assert is_public(ipaddress.ip_address(address)) is public
