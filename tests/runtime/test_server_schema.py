"""The server against its own OpenAPI description: requests that schemathesis makes up."""

import subprocess
import sys
from pathlib import Path

import pytest
from support.servers import export_caller, serving

FIRST = "^/(v1/(chat/completions|completions|models)|health|metrics)"

CHECKS = (
    "not_a_server_error,status_code_conformance,content_type_conformance,"
    "response_schema_conformance,negative_data_rejection"
)


@pytest.mark.parametrize(
    "which",
    [
        pytest.param("--include-path-regex", marks=pytest.mark.check),
        pytest.param("--exclude-path-regex", marks=pytest.mark.soak),
    ],
)
def test_answers_are_as_described(
    cpp_build: Path,
    shared_data: Path,
    tmp_path: Path,
    tmp_path_factory: pytest.TempPathFactory,
    which: str,
) -> None:
    pte = export_caller(shared_data, tmp_path_factory)
    with serving(pte, "--name", "stories", "--threads", "1", "--max-tokens", "20") as server:
        command = [
            *(
                Path(sys.executable).parent / "schemathesis",
                "run",
                server.address + "/openapi.json",
            ),
            *("--checks", CHECKS, "--max-examples", "6", "--seed", "1"),
            *("--generation-database", "none"),
            *(which, FIRST),
        ]
        result = subprocess.run(command, capture_output=True, text=True, timeout=1500, cwd=tmp_path)
        assert result.returncode == 0, result.stdout[-5000:]
