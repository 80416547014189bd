"""`python -m runtime build`, `package`, `generate` and `web`."""

import os
import sys
import webbrowser
from pathlib import Path
from typing import NoReturn
from urllib.parse import quote

import click

from exporter.commands.interruption import interruptible, say_from_now
from exporter.commands.version import version_option
from runtime.build import BUILD_DIR, PRODUCTS, build, wheel_directory
from runtime.errors import BuildError, RunnerError
from runtime.executorch_source import ExecutorchSource, find_source
from runtime.package import package
from runtime.serve import open_server
from runtime.site import Site, find_site
from runtime.wheel import fetch_wheel

# The systems that are built from ExecuTorch's source, and the presets of each.
PRESETS = {
    "aarch64-static": ["aarch64-static"],
    "macos-arm64": ["macos-arm64"],
    "wasm32": ["wasm32", "wasm32-relaxed"],
}


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@version_option()
def main() -> None:
    """Build the C++ runner, and run a model from Python."""


@main.command("build")
@click.option(
    "--all",
    "everything",
    is_flag=True,
    help="Also build the programs of the tests, such as build/metal_runner.",
)
@click.option("--sanitize", is_flag=True, help="With ASan and UBSan, into build/asan.")
@click.option(
    "--target",
    type=click.Choice(["host", "aarch64", *PRESETS]),
    default="host",
    show_default=True,
    help="aarch64: Arm on Linux; downloads ExecuTorch's wheel for it once. aarch64-static: one "
    "file without libraries for Arm on any Linux kernel, also Android's. macos-arm64: linked here, "
    "never run. wasm32: for browsers and node, also with relaxed SIMD, into build/wasm32-relaxed. "
    "The result is in build/TARGET.",
)
@click.option(
    "--executorch-source",
    type=click.Path(path_type=Path, file_okay=False),
    help="A clone of ExecuTorch, whose runtime is compiled in place of its wheel's; the result "
    "runs programs of --delegate cpu. For the host, it is in build/source.",
)
def build_command(
    everything: bool, sanitize: bool, target: str, executorch_source: Path | None
) -> None:
    """Build what is out of date."""
    if sanitize and target != "host":
        raise click.UsageError(f"--sanitize is for the host: leave out --target {target}")
    if executorch_source is not None:
        if sanitize or target == "aarch64":
            raise click.UsageError("--sanitize and --target aarch64 use ExecuTorch's wheel")
        source = _find_source(executorch_source)
        for preset in PRESETS.get(target, ["source"]):
            product = "thimble_web" if target == "wasm32" else "runner"
            click.echo(_build(preset, (product,), source))
        return
    if target in PRESETS:
        raise click.UsageError(
            f"--target {target} compiles ExecuTorch's runtime: name a clone of it with "
            "--executorch-source DIR"
        )
    if target == "host":
        targets = () if everything else PRODUCTS
        click.echo(_build("asan", ()) if sanitize else _build("default", targets))
        return
    try:
        if fetch_wheel(wheel_directory()):
            click.echo(f"fetched {wheel_directory()}")
    except BuildError as error:
        _fail(error, 1)
    click.echo(_build(target, ()))


@main.command("package")
@click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("."),
    show_default=True,
    help="The directory for the wheel.",
)
def package_command(out: Path) -> None:
    """Write a wheel for this platform, including the compiled programs."""
    try:
        click.echo(f"wrote {package(out)}")
    except BuildError as error:
        _fail(error, 1)


@main.command()
@click.argument("model", type=click.Path(path_type=Path))
@click.option("-p", "--prompt", required=True, help="The text to continue; may be empty.")
@click.option("-n", "--tokens", type=click.IntRange(1), help="The most tokens to generate.")
@click.option("--temperature", type=click.FloatRange(0, 100), default=0.0, show_default=True)
@click.option("--top-k", type=click.IntRange(0), default=0, show_default=True, help="0: all.")
@click.option("--top-p", type=click.FloatRange(0, 1), default=1.0, show_default=True)
@click.option("--min-p", type=click.FloatRange(0, 1), default=0.0, show_default=True)
@click.option("--seed", type=click.IntRange(0, 2**64 - 1), help="Makes sampling repeatable.")
@click.option("--json-schema", help="The answer is JSON that this schema describes.")
@click.option("--regex", help="A regular expression that matches the complete answer.")
@click.option(
    "--choice", multiple=True, help="The answer is one of the texts; one option for each."
)
@click.option("--grammar", help="The answer is a text of this GBNF grammar.")
@click.option("--threads", type=click.IntRange(1, 256), help="Default: automatic.")
@click.option("--adapter", help="The name of an adapter that the model was exported with.")
@click.option(
    "--draft",
    metavar="ngram|FILE",
    help="Verify guesses of the next tokens: repetitions in the text, or of a smaller model.",
)
def generate(
    model: Path,
    prompt: str,
    tokens: int | None,
    temperature: float,
    top_k: int,
    top_p: float,
    min_p: float,
    seed: int | None,
    json_schema: str | None,
    regex: str | None,
    choice: tuple[str, ...],
    grammar: str | None,
    threads: int | None,
    adapter: str | None,
    draft: str | None,
) -> None:
    """Continue a prompt: the text goes to standard output, everything else to standard error."""
    from runtime.runner import Runner

    if not (BUILD_DIR / "libthimble.so").is_file():
        click.echo(_build("default", PRODUCTS), err=True)
    try:
        runner = Runner(model, threads, adapter=adapter, draft=draft)
    except RunnerError as error:
        _fail(error, 2)
    with runner:
        try:
            options = (temperature, top_k, top_p, min_p, seed)
            answer = runner.generate(
                prompt,
                tokens,
                *options,
                json_schema=json_schema,
                regex=regex,
                choice=choice or None,
                grammar=grammar,
            )
            for text in answer:
                click.echo(text, nl=False)
            click.echo()
            click.echo(_summary(runner.stats), err=True)
        except RunnerError as error:
            _fail(error, 1 if float(runner.stats["prefill_s"]) > 0 else 2)


@main.command()
@click.argument(
    "model", type=click.Path(path_type=Path, exists=True, dir_okay=False), required=False
)
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
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="Write the page into DIR instead, for any web server; it is the npm package too: npm pack "
    "DIR makes its archive.",
)
def web(model: Path | None, port: int, opens: bool, pack: Path | None) -> None:
    """Run models in the browser of this computer: serves a page, and MODEL for it to load.

    The page runs a .pte that was exported with --delegate cpu; nothing that is typed leaves the
    browser. Without MODEL, choose a file in the page. Only this computer can reach the server;
    Ctrl-C ends it. Needs the modules of python -m runtime build --target wasm32.
    """
    if pack is not None and (model is not None or opens):
        raise click.UsageError("--pack only writes files: leave out MODEL and --open")
    try:
        site = find_site()
        if pack is not None:
            site.write(pack)
            click.echo(f"wrote {pack}")
        else:
            _serve(site, model, port, opens)
    except (BuildError, RunnerError, OSError) as error:
        _fail(error, 2)


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


def _find_source(directory: Path) -> ExecutorchSource:
    try:
        return find_source(directory)
    except BuildError as error:
        _fail(error, 2)


def _build(preset: str, targets: tuple[str, ...], source: ExecutorchSource | None = None) -> str:
    """Builds, and returns a line that tells what was done."""
    try:
        result = build(preset, targets, source)
    except BuildError as error:
        _fail(error, 1)
    program = result.directory / ("thimble.wasm" if preset.startswith("wasm32") else "runner")
    if result.seconds == 0.0:
        return f"{program} is up to date"
    return f"built {program} in {result.seconds:.1f} s"


def _summary(stats: dict[str, str | int | float]) -> str:
    return (
        f"{stats['prompt_tokens']} prompt + {stats['generated_tokens']} generated tokens, "
        f"prefill {stats['prefill_tokens_per_s']:.1f} tok/s, "
        f"decode {stats['decode_tokens_per_s']:.1f} tok/s, {stats['stop_reason']}"
    )


def _fail(error: Exception, code: int) -> NoReturn:
    """Exits with 2 if the request is not possible, with 1 if the work failed."""
    click.echo(f"runtime: {error}", err=True)
    sys.exit(code)


def run() -> None:
    with interruptible("Interrupted."):
        main()


def run_runner() -> None:
    """Runs the C++ runner in this process; builds it first if it is missing."""
    program = BUILD_DIR / "runner"
    if not program.is_file():
        click.echo(_build("default", PRODUCTS), err=True)
    os.execv(program, [str(program), *sys.argv[1:]])


if __name__ == "__main__":
    run()
