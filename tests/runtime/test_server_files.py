"""A model's file that is changed or removed while it is served."""

import asyncio
import shutil
import signal
from pathlib import Path

import pytest

from runtime.server.model import _LOG, Answer, BusyError, Model, ModelError
from runtime.server.model_process import ModelOptions


async def ask(model: Model) -> Answer:
    answer = await model.submit("Once", {"max_new_tokens": 1})
    async for _ in answer:
        pass
    return answer


async def when_tried(model: Model) -> Answer:
    """Asks until the model has been loaded again, or that has failed."""
    while True:
        try:
            return await ask(model)
        except BusyError as busy:
            assert busy.retry_after is None
            await asyncio.sleep(0.02)


@pytest.mark.parametrize("truncated", [False, True])
def test_a_file_that_is_changed_is_told_and_loaded_again(
    cpp_build: Path,
    stories_cpu_pte: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    truncated: bool,
) -> None:
    file = tmp_path / "live.pte"
    shutil.copy(stories_cpu_pte, file)
    told: list[tuple[object, ...]] = []
    monkeypatch.setattr(_LOG, "error", lambda *said: told.append(said))
    changed = "live.pte was changed while it was in use"

    async def serve() -> None:
        model = Model(ModelOptions(file, threads=1))
        await model.start()
        try:
            file.write_bytes(b"" if truncated else bytes(file.stat().st_size))
            with pytest.raises(ModelError, match=f"^{changed}: send the request again$"):
                await ask(model)
            file.unlink()
            with pytest.raises(ModelError, match="cannot be loaded again: .*live.pte") as failed:
                await when_tried(model)
            assert str(tmp_path) not in str(failed.value)
            shutil.copy(stories_cpu_pte, file)
            while not model.ready:
                await asyncio.sleep(0.02)
            assert (await ask(model)).stats["generated_tokens"] == 1
        finally:
            await model.stop()

    asyncio.run(serve())
    _, why, code = told[0]
    assert why == f"{changed}: " and code == (-signal.SIGBUS if truncated else -signal.SIGKILL)
