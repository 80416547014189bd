"""`python -m runtime serve`."""

import asyncio
import logging
import math
import re
import socket
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from exporter.command_line.filled import FilledText
from exporter.command_line.one_adapter import one_adapter
from exporter.command_line.request import takes
from quant.errors import QuantError
from quant.machine.memory_size import parse_size, show_size
from runtime.commands.listening import listen
from runtime.commands.results import build_if_missing, fail, tell_sampling
from runtime.commands.served_models import named, read_served, room_of
from runtime.distribution import version, with_extra
from runtime.engine import MAX_SEQUENCES
from runtime.errors import RunnerError
from runtime.runner import KV_CACHES

if TYPE_CHECKING:
    from starlette.applications import Starlette

    from runtime.server.served import ServedModel
    from runtime.server.shelf import Shelf


@dataclass(frozen=True)
class Request:
    """The arguments of the command line."""

    model: tuple[str, ...]
    host: str
    port: int
    name: str | None
    api_key: str | None
    threads: int | None
    kv_cache: str
    adapter: str | None
    draft: str | None
    require_signature: str | None
    parallel: int
    waiting: int
    max_tokens: int | None
    timeout: float
    stall_timeout: float
    max_body: int
    max_sound: int
    max_sound_seconds: float
    image_hosts: tuple[str, ...]
    max_images: int
    origins: tuple[str, ...]
    hosts: tuple[str, ...]
    schema_unsupported: str
    strict_fields: bool
    max_memory: str | None


_ORIGIN = re.compile(r"\*|null|[a-z][a-z0-9+.-]*://[^/?#\s]+")  # as browsers send it


@click.command(short_help="Serve models over HTTP.")
@click.argument(
    "model",
    type=FilledText("name a .pte file"),
    nargs=-1,
    required=True,
)
@click.option(
    "--host",
    type=FilledText(),
    default="127.0.0.1",
    show_default=True,
    help="The address to listen on.",
)
@click.option(
    "--port", type=click.IntRange(0, 65535), default=8080, show_default=True, help="0: a free one."
)
@click.option(
    "--name",
    type=FilledText(),
    help="What clients call the only model. Default: the file's name.",
)
@click.option(
    "--api-key",
    envvar="THIMBLE_API_KEY",
    show_envvar=True,
    help="Clients must send it. Required if --host is not this computer's own address.",
)
@click.option("--threads", type=click.IntRange(1, 256), help="Default: automatic.")
@click.option(
    "--kv-cache",
    type=click.Choice(KV_CACHES),
    default="default",
    show_default=True,
    help="The type of the key/value cache.",
)
@click.option(
    "--adapter",
    type=FilledText(),
    multiple=True,
    callback=one_adapter,
    help="The name of an adapter that the model was exported with.",
)
@click.option(
    "--draft",
    type=click.Choice(["ngram"]),
    help="Guess repetitions in each text, several tokens a call: the same text, often sooner.",
)
@click.option(
    "--require-signature",
    type=FilledText("name a file with an Ed25519 public key"),
    metavar="PUBLIC_KEY",
    help="Serve only files that the owner of this Ed25519 key signed, in FILE.sig.",
)
@click.option(
    "--parallel",
    type=click.IntRange(1, MAX_SEQUENCES),
    default=4,
    show_default=True,
    help="Answers at once; each has a key/value cache.",
)
@click.option(
    "--queue",
    "waiting",
    type=click.IntRange(1, 10_000),
    default=64,
    show_default=True,
    help="Requests that may wait; more are refused.",
)
@click.option(
    "--max-tokens",
    type=click.IntRange(1),
    help="The most tokens of an answer. Default: what the context allows.",
)
@click.option(
    "--timeout",
    type=click.FloatRange(0.1),
    default=600.0,
    show_default=True,
    help="The most seconds of a request: the wait for its turn, and the answer.",
)
@click.option(
    "--stall-timeout",
    type=click.FloatRange(0.1),
    default=300.0,
    show_default=True,
    help="Seconds in which a client must take some of what waits for it, or is disconnected.",
)
@click.option(
    "--max-body",
    type=click.IntRange(1024),
    default=1 << 20,
    show_default=True,
    help="The most bytes of a request.",
)
@click.option(
    "--max-sound",
    type=click.IntRange(1024),
    default=25 << 20,
    show_default=True,
    help="The most bytes of a sound to transcribe.",
)
@click.option(
    "--max-sound-seconds",
    type=click.FloatRange(1),
    default=7200.0,
    show_default=True,
    help="The longest sound to transcribe.",
)
@click.option(
    "--allow-image-hosts",
    "image_hosts",
    type=FilledText(),
    multiple=True,
    metavar="HOST",
    help="A host whose pictures clients may name by https; one option for each. Default: none, so "
    "that pictures come within requests.",
)
@click.option(
    "--max-images",
    type=click.IntRange(1024),
    default=20 << 20,
    show_default=True,
    help="The most bytes of the pictures of a request.",
)
@click.option(
    "--cors",
    "origins",
    type=FilledText(),
    multiple=True,
    metavar="ORIGIN",
    help="A web page's origin, such as http://localhost:3000, that may use the server; one option "
    "for each.",
)
@click.option(
    "--allowed-host",
    "hosts",
    type=FilledText(),
    multiple=True,
    metavar="NAME",
    help="Another name or address that clients may use for the server; one option for each. By "
    "default only this computer's own, and any if --host is not one of these.",
)
@click.option(
    "--schema-unsupported",
    type=click.Choice(["refuse", "relax"]),
    default="refuse",
    show_default=True,
    help="What is not supported of a client's schema is an error, or left out and told in "
    "schema_left_out.",
)
@click.option(
    "--strict-fields",
    is_flag=True,
    help="Refuse requests with fields that the server does not know. Default: those alone that "
    "would change the answer.",
)
@click.option(
    "--max-memory",
    type=FilledText("give a size, such as 6G"),
    metavar="SIZE",
    help="The most memory of the loaded models, such as 6G; the least recently used go. Default: "
    "80% of this computer's; of one model alone, no limit.",
)
@takes(Request)
def serve(request: Request) -> None:
    """Serve models over HTTP, with the interfaces that clients know.

    Clients choose among several models by their names: the files' names, or NAME of NAME=MODEL.
    Each is loaded when it is first asked for; one alone is loaded at once.

    The paths are those of OpenAI (/v1/chat/completions, /v1/completions, /v1/responses,
    /v1/embeddings, /v1/audio/transcriptions, /v1/audio/translations, /v1/models), Anthropic
    (/v1/messages) and Ollama (below /api). Those of llama.cpp are /tokenize, /detokenize and
    /props. There are /health and /metrics too, and / is a page to chat with. Models must be
    exported with --delegate cpu.
    """
    try:
        files = named(request.model, request.name)
        given = request.max_memory
        most = None if given is None else parse_size(given, "--max-memory")
    except (QuantError, RunnerError) as error:
        fail(RunnerError(str(error).removesuffix(".")), 2)
    try:
        from runtime.server.app import make_app
        from runtime.server.hosts import host_name, is_loopback
        from runtime.server.settings import ServerSettings
        from runtime.server.shelf import Shelf
    except ModuleNotFoundError as error:
        fail(RunnerError(f"{error.name} is not installed: {with_extra('serve')}"), 2)
    build_if_missing("libthimble.so")
    local = is_loopback(request.host.lower())
    for other in request.hosts:
        if host_name(f"[{other}]" if ":" in other else other) is None:
            fail(
                RunnerError(f"--allowed-host {other} is not a name or an address without a port"),
                2,
            )
    for other in request.image_hosts:
        if host_name(other) is None:
            fail(RunnerError(f"--allow-image-hosts {other} is not a name, or NAME:PORT"), 2)
    for origin in request.origins:
        if not _ORIGIN.fullmatch(origin):
            example = "such as http://localhost:3000, without a path"
            fail(RunnerError(f"--cors {origin} is not an origin, {example}"), 2)
    key = request.api_key
    if key is not None and not (key and key.isascii() and key.isprintable()):
        fail(RunnerError("--api-key must be printable ASCII characters, at least one"), 2)
    if math.isnan(request.timeout) or math.isnan(request.stall_timeout):
        fail(RunnerError("--timeout and --stall-timeout must be numbers of seconds, not nan"), 2)
    if not local and not key:
        fail(
            RunnerError(f"--host {request.host} lets others reach the server: give an --api-key"), 2
        )
    try:
        family = socket.AF_INET6 if ":" in request.host else socket.AF_INET
        address = (request.host, request.port)
        listener = socket.create_server(address, family=family, backlog=2048)
    except OSError as error:
        fail(
            RunnerError(f"cannot listen on {request.host} port {request.port}: {_reason(error)}"), 2
        )
    settings = ServerSettings(
        key,
        request.max_body,
        request.max_tokens,
        request.timeout,
        request.origins,
        hosts=(request.host, *request.hosts) if local or request.hosts else None,
        relax=request.schema_unsupported == "relax",
        strict_fields=request.strict_fields,
        max_sound=request.max_sound,
        max_sound_s=request.max_sound_seconds,
        image_hosts=request.image_hosts,
        max_images=request.max_images,
        version=version(),
    )
    logging.basicConfig(format="runtime: %(message)s", level=logging.WARNING)
    models = _models(request, files)
    shelf = Shelf(models, _room(most, models))
    app = make_app(shelf, settings)
    asyncio.run(_serve(shelf, app, listener, request.stall_timeout))


def _models(request: Request, files: dict[str, Path]) -> "list[ServedModel]":
    from runtime.server.model_process import ModelOptions

    options = ModelOptions(
        Path(),
        request.threads,
        request.kv_cache,
        request.adapter,
        request.draft,
        request.parallel,
        request.waiting,
        require_signature=request.require_signature,
    )
    if request.adapter is not None and len(files) > 1:
        fail(RunnerError("--adapter is for one model: leave it out, or serve one"), 2)
    is_alone = len(files) == 1
    try:
        models = [
            read_served(name, replace(options, path=path), is_alone) for name, path in files.items()
        ]
    except RunnerError as error:
        fail(error, 2)
    if all(served.options.task != "text" for served in models):
        _require_no_option_of_answers(request, models[0])
    if is_alone:
        tell_sampling(models[0].report.get("model", {}).get("sampling", {}))
    return models


def _room(given: int | None, models: "list[ServedModel]") -> float:
    try:
        most = room_of(models, given)
    except RunnerError as error:
        fail(error, 2)
    if len(models) > 1:
        click.echo(f"loaded models take {show_size(most)} at most (--max-memory)", err=True)
    return most


def _require_no_option_of_answers(request: Request, served: "ServedModel") -> None:
    kind = "of embeddings" if served.options.task == "embedding" else "that hears"
    given = {
        "--kv-cache": request.kv_cache != "default",
        "--adapter": request.adapter is not None,
        "--draft": request.draft is not None,
        "--max-tokens": request.max_tokens is not None,
    }
    for name, is_given in given.items():
        if is_given:
            fail(
                RunnerError(
                    f"{name} has no effect on a model {kind}, which "
                    f"{request.model[0]} is: leave it out"
                ),
                2,
            )


def _reason(error: OSError) -> str:
    """Without the address, which asyncio and socket repeat in parentheses."""
    return (error.strerror or str(error)).partition(" (")[0]


async def _serve(
    shelf: "Shelf", app: "Starlette", listener: socket.socket, patience: float
) -> None:
    from runtime.server.model import ModelError

    if len(shelf.places) == 1:
        click.echo(f"loading {shelf.names[0]} ...", err=True)
        try:
            await shelf.load(shelf.places[0])
        except ModelError as error:
            fail(error, 2)
    await listen(shelf, app, listener, patience)
