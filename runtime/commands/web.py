"""`python -m runtime web`."""

import webbrowser
from pathlib import Path
from urllib.parse import quote

import click

from exporter.catalogue.names import no_program
from exporter.command_line.filled import FilledPath
from exporter.command_line.interruption import say_from_now
from runtime.commands.results import fail
from runtime.errors import BuildError, RunnerError
from runtime.packaging.web_site import Site, find_site
from runtime.web_server import open_server


@click.command(short_help="Run models in the browser of this computer.")
@click.argument("model", type=FilledPath("name a .pte file"), required=False)
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=8000,
    show_default=True,
    help="0: any that is free.",
)
@click.option("--open", "opens", is_flag=True, help="Also open the page in the browser.")
@click.option(
    "--pack",
    type=FilledPath("name a directory", file_okay=False),
    metavar="DIR",
    help="Write the page into DIR instead, for any web server; it is the npm package too: npm pack "
    "DIR makes its archive.",
)
def web(model: Path | None, port: int, opens: bool, pack: Path | None) -> None:
    """Run models in the browser of this computer: serve a page, and MODEL for it to load.

    The page runs a .pte that was exported with --delegate cpu; nothing that is typed leaves the
    browser. Without MODEL, choose a file in the page. Only this computer can reach the server;
    Ctrl-C ends it.

    The browser's runner is built from a checkout: thimble-runtime build --target wasm32
    --executorch-source DIR, where DIR is a clone of ExecuTorch. An installed wheel has none.
    """
    if pack is not None and (model is not None or opens):
        raise click.UsageError("--pack only writes files: leave out MODEL and --open")
    if model is not None and not model.is_file():
        fail(RunnerError(no_program(model)), 2)
    try:
        site = find_site()
        if pack is not None:
            site.write(pack)
            click.echo(f"wrote {pack}")
        else:
            _serve(site, model, port, opens)
    except (BuildError, RunnerError, OSError) as error:
        fail(error, 2)


def _serve(site: Site, model: Path | None, port: int, opens: bool) -> None:
    files = dict(site.files)
    query = ""
    if model is not None:
        address = f"models/{model.name}"
        files[address] = model
        query = f"?model={quote(quote(address))}"
    with open_server(files, port) as server:
        url = f"http://127.0.0.1:{server.server_port}/{query}"
        click.echo(f"{url} (Ctrl-C ends)")
        if opens:
            webbrowser.open(url)
        say_from_now("")
        server.serve_forever()
