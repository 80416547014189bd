"""Model Explorer, with ExecuTorch's extension and ours, in an environment of its own.

Files are opened as its page opens them: by the manager that its server gives each command to.
"""

import json
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

import pytest
from support.recorded_runs import Recorded

from devtools.profile import load_profile

pytestmark = pytest.mark.soak
ROOT = Path(__file__).resolve().parents[2]
PINS = (  # devtools/README.md tells what these show
    "ai-edge-model-explorer==0.1.34",
    "executorch-extension-model-explorer==0.1.1",
    "pte-adapter-model-explorer==0.2.0",
    "etrecord-adapter-model-explorer==0.2.0",
    "etdump-data-provider-model-explorer==0.1.0",
)
OPEN = """
import json, sys
from model_explorer.extension_manager import ExtensionManager

pte, etrecord, etdump, out = sys.argv[1:]
extensions = ExtensionManager(["executorch_extension_model_explorer", "devtools.model_explorer"])
extensions.load_extensions()

def convert(path, adapter):
    command = {"cmdId": "convert", "modelPath": path, "settings": {}}
    return extensions.run_cmd(
        {**command, "extensionId": adapter, "deleteAfterConversion": False}
    )["graphCollections"]

shown = convert(etrecord, "etrecord_adapter")
(graph,) = shown[0]["graphs"]

def provide(provider, key):
    command = {"cmdId": "run", "modelPath": etrecord, "graphId": graph["id"], "graph": graph}
    return extensions.run_cmd(
        {**command, "extensionId": provider, "configValues": {key: etdump}}
    )

found = {
    "pte": convert(pte, "pte_adapter_model_explorer"),
    "graph": graph,
    "theirs": provide("etdump_data_provider", "etdump_path"),
    "ours": provide("thimble_lines_and_times", "etdump"),
}
json.dump(found, open(out, "w"))
"""


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of an environment that has Model Explorer, and the packages of this one."""
    directory = tmp_path_factory.mktemp("model_explorer")
    subprocess.run([sys.executable, "-m", "venv", directory], check=True)
    (site,) = directory.glob("lib/python*/site-packages")
    (site / "packages.pth").write_text(f"{sysconfig.get_path('purelib')}\n{ROOT}\n")
    pip = [directory / "bin" / "python", "-m", "pip", "--quiet"]
    asked = subprocess.run([*pip, "download", "--no-deps", "--dest", directory, PINS[1]])
    if asked.returncode != 0:
        pytest.skip("PyPI cannot be reached")
    constraints = ROOT / "tests" / "constraints.txt"
    subprocess.run([*pip, "install", *PINS, "--constraint", constraints], check=True)
    return directory / "bin" / "python"


@pytest.mark.parametrize(
    ("name", "delegate", "inside"),
    [("stories_cpu_pte", "ThimbleCpuBackend", False), ("stories_gptq_pte", "XnnpackBackend", True)],
)
def test_it_opens_what_an_export_and_a_run_write(
    python: Path,
    recorded: Recorded,
    name: str,
    delegate: str,
    inside: bool,
    request: pytest.FixtureRequest,
    tmp_path: Path,
) -> None:
    etdump, etrecord = recorded(name)
    files = [request.getfixturevalue(name), etrecord, etdump, tmp_path / "found.json"]
    subprocess.run([python, "-c", OPEN, *files], check=True, capture_output=True, cwd=tmp_path)
    found: dict[str, Any] = json.loads(files[-1].read_text())

    program, *delegates = found["pte"]
    assert delegate in {node["label"] for node in program["graphs"][0]["nodes"]}
    assert bool(delegates) == inside  # the inside of XNNPACK's calls, not of ours

    operators = {node["id"] for node in found["graph"]["nodes"]} - {"GraphInputs", "GraphOutputs"}
    keys = {item["key"] for node in found["graph"]["nodes"] for item in node["attrs"]}
    assert "debug_handle" in keys and "stack_trace" not in keys  # so that lines are ours to give
    assert "No profiling events" in found["theirs"]["error"]

    assert not found["ours"]["error"]
    lines, *times = found["ours"]["result"]
    assert lines["results"].keys() == operators
    profile = load_profile(etdump, etrecord)
    events = [event for call in profile.calls for event in call.portions if event.lines]
    assert {event.lines[0].location for event in events} <= {
        item["value"] for item in lines["results"].values()
    }
    assert [column["name"].split(":")[0] for column in times] == ["prefill", "decode"]
    milliseconds = [sum(v["value"] for v in column["results"].values()) for column in times]
    (prefill,) = profile.groups["prefill"]  # one call: its median is itself
    assert milliseconds[0] == pytest.approx(prefill.attributed_ns / 1e6) and milliseconds[1] > 0
    assert all(column["results"].keys() <= operators for column in times)
