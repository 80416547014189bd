"""The speed of a model in headless Chromium beside the native runner, in turn.

    PYTHONPATH=.:tests python tests/support/web_speed.py MODEL.pte [--gguf FILE --wllama DIR]

DIR: the unpacked npm package @wllama/wllama; FILE: what it runs.
"""

import argparse
import json
import os
import statistics
import subprocess
import tempfile
from pathlib import Path

from support.browser import open_page
from support.web import served

from runtime.build import BUILD_DIR
from runtime.packaging.web_site import find_site

WORDS = (
    "The quick brown fox jumps over the lazy dog and then it runs far away into the green forest "
)
PROMPT = " ".join((WORDS * 40).split()[:180])
TOKENS = 64
PAGE = """<!doctype html><title>speed</title><link rel="icon" href="data:,">
<script type="module">
import { load } from "./index.mjs";
window.open = async (url, threads) => {
  const model = await load(url, { threads });
  return async (prompt, tokens) => {
    for await (const _ of model.generate(prompt, { maxNewTokens: tokens }));
    const { prefill_tokens_per_s, decode_tokens_per_s, runs_with } = model.stats;
    return [prefill_tokens_per_s, decode_tokens_per_s, runs_with];
  };
};
window.openOther = async (url, threads) => {
  const { Wllama } = await import("./wllama/esm/index.js");
  const files = { default: new URL("wllama/esm/wasm/wllama.wasm", location.href).href };
  const quiet = { debug() {}, log() {}, warn() {}, error() {} };
  const model = new Wllama(files, { logger: quiet });
  await model.loadModelFromUrl(url, { n_threads: threads, n_ctx: 2048, n_gpu_layers: 0 });
  return async (prompt, tokens) => {
    let timings;
    const options = { prompt, max_tokens: tokens, temperature: 0, stream: false };
    timings = (await model.createCompletion(options)).timings;
    return [timings.prompt_per_second, timings.predicted_per_second, "wllama"];
  };
};
window.models = {};
window.step = 0;
</script>
"""


def native(model: Path, prompt: str, threads: int) -> list[object]:
    with tempfile.NamedTemporaryFile(suffix=".json") as out:
        command = [BUILD_DIR / "runner", model, "-p", prompt, "-n", str(TOKENS)]
        command += ["--threads", str(threads), "--json", out.name]
        environment = {**os.environ, "THIMBLE_KERNELS": "avx2"}
        subprocess.run(command, env=environment, check=True, capture_output=True)
        stats = json.loads(Path(out.name).read_text())
    return [stats["prefill_tokens_per_s"], stats["decode_tokens_per_s"], stats["runs_with"]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", type=Path)
    parser.add_argument("--gguf", type=Path)
    parser.add_argument("--wllama", type=Path)
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--runs", type=int, default=9)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        page_file = Path(directory) / "speed.html"
        page_file.write_text(PAGE)
        files = {**find_site().files, "speed.html": page_file, "model.pte": options.model}
        if options.wllama is not None:
            files["model.gguf"] = options.gguf
            for path in options.wllama.rglob("*"):
                if path.is_file():
                    files[f"wllama/{path.relative_to(options.wllama)}"] = path
        with served(files) as url, open_page(Path(directory) / "profile") as page:
            page.ask("Page.navigate", url=f"{url}speed.html")
            page.wait("window.step === 0")

            def do(expression: str) -> object:
                page.run(
                    f"window.step = 1; window.failure = null; ({expression})"
                    ".then(r => window.result = r).catch(e => window.failure = String(e))"
                    ".finally(() => window.step = 0); 0"
                )
                page.wait("window.step === 0")
                assert page.run("window.failure") is None, page.run("window.failure")
                return page.run("typeof window.result == 'function' ? 0 : window.result")

            ways = [f"thimble {n}" for n in options.threads]
            for n in options.threads:
                do(f"open('model.pte', {n}).then(m => models['thimble {n}'] = m)")
                if options.wllama is not None:
                    do(f"openOther('{url}model.gguf', {n}).then(m => models['wllama {n}'] = m)")
            if options.wllama is not None:
                ways += [f"wllama {n}" for n in options.threads]
            found: dict[str, list[list[float]]] = {}
            for run in range(options.runs + 1):
                prompt = f"{run} {PROMPT}"
                for way in ways:
                    result = do(f"models['{way}']({json.dumps(prompt)}, {TOKENS})")
                    if run > 0:  # the first warms up
                        found.setdefault(way, []).append(result)  # type: ignore[arg-type]
                for n in options.threads:
                    result = native(options.model, prompt, n)
                    if run > 0:
                        found.setdefault(f"native {n}", []).append(result)  # type: ignore[arg-type]
    for way, results in found.items():
        prefill, decode = (statistics.median(r[i] for r in results) for i in (0, 1))
        beside = found[f"native {way.split()[1]}"]
        ratios = [
            statistics.median(r[i] / b[i] for r, b in zip(results, beside, strict=True))
            for i in (0, 1)
        ]
        print(
            f"{way}: prefill {prefill:.0f} ({ratios[0]:.2f}), decode {decode:.0f} "
            f"({ratios[1]:.2f}); {results[0][2]}"
        )


if __name__ == "__main__":
    main()
