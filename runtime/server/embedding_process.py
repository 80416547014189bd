"""The process of a model of embeddings: takes texts from a connection, answers with their rows."""

from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection

from runtime.embedder import Embedder
from runtime.errors import RunnerError
from runtime.server.model_process import Coded, ModelOptions, Ready, Refused


@dataclass(frozen=True)
class Embed:
    """Asks for what Embedder.embed() returns."""

    id: int
    texts: list[str]
    prompt_name: str | None


def run_embedder(connection: Connection, options: ModelOptions) -> None:
    """Loads a model and serves the connection until None comes, or its other end is closed."""
    with suppress(OSError, EOFError):  # the server is gone
        try:
            embedder = Embedder(options.path, options.threads, options.require_signature)
        except RunnerError as error:
            connection.send(Refused(0, str(error)))
            return
        with embedder:
            connection.send(Ready(None))
            while (command := connection.recv()) is not None:
                connection.send(_embedded(embedder, command))


def _embedded(embedder: Embedder, command: Embed) -> Coded | Refused:
    try:
        return Coded(command.id, [embedder.embed(command.texts, command.prompt_name)])
    except RunnerError as error:
        return Refused(command.id, str(error))
