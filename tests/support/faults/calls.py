"""Calls of libthimble whose n-th allocation fails; run by tests/runtime/test_faults.py.

Arguments: the preloaded library, a model, its folder, the first n and the step to the next. Prints
JSON: how often each function failed with which sentence, "" if it succeeded.
"""

import ctypes
import json
import sys
from collections import Counter, defaultdict
from collections.abc import Callable
from pathlib import Path

from runtime.binding.library import LoadOptions, Options, library

MOST = 100_000  # allocations of a call
CALLS = 9  # parameters that faulty() passes on


def address(function: object) -> int:
    return int(ctypes.cast(function, ctypes.c_void_p).value or 0)  # type: ignore[arg-type]


class Faults:
    def __init__(self, path: str) -> None:
        self._lib = ctypes.CDLL(path)
        self._lib.faulty.argtypes = [ctypes.c_long, ctypes.c_void_p, *[ctypes.c_void_p] * CALLS]
        self._lib.faulty.restype = ctypes.c_void_p
        self._lib.fault_disarm.restype = ctypes.c_long
        self.take = address(self._lib.fault_take)

    def call(self, n: int, function: object, *arguments: int | None) -> tuple[int | None, bool]:
        """What the function returns, and whether an allocation failed."""
        padded = [*arguments, *[None] * (CALLS - len(arguments))]
        result = self._lib.faulty(n, address(function), *padded)
        return result, self._lib.fault_disarm() <= 0


def main() -> None:
    preloaded, model, folder, first, step = sys.argv[1:]
    faults, lib = Faults(preloaded), library()
    path, session = ctypes.create_string_buffer(model.encode()), Path(folder) / "session"
    name = ctypes.create_string_buffer(str(session).encode())
    prompt, text = ctypes.create_string_buffer(b"Once upon"), ctypes.create_string_buffer(4096)
    error = ctypes.create_string_buffer(1024)
    regex = ctypes.create_string_buffer(rb"[a-z ]{3,5}")
    end = (address(error), 1024)
    said: dict[str, Counter[str]] = defaultdict(Counter)

    def sweep(
        title: str, function: object, arguments: Callable[[], list[int | None]], handle: bool
    ) -> list[int]:
        """Calls with a failing allocation until none fails; returns the handles of successes."""
        opened = []
        for n in range(int(first), MOST, int(step)):
            error.value = b""
            text.value = b""
            result, failed = faults.call(n, function, *arguments(), *end)
            good = bool(result) if handle else not (result or 0) & 0xFFFFFFFF
            if good and handle:
                opened.append(result or 0)
            assert good or (failed and error.value), (title, n, error.value)
            said[title]["" if good else error.value.decode().replace(folder, "")] += 1
            if not failed:
                break
        return opened

    options = Options(8, 0.0, 0, 1.0, 0.0, 0)
    one_thread = LoadOptions(1, 0, 0)
    load = [address(path), ctypes.addressof(one_thread)]
    # The first load makes what is local to a thread; without memory for that, glibc ends a process.
    lib.thimble_free(lib.thimble_load(path.value, ctypes.byref(one_thread), error, 1024))
    loaded = sweep("load", lib.thimble_load, lambda: load, True)
    runner = loaded[-1]

    def generate() -> list[int | None]:
        lib.thimble_truncate(runner, 0, error, 1024)
        return [
            *(runner, address(prompt), len(prompt.value), ctypes.addressof(options)),
            *(faults.take, address(text)),
        ]

    def answer() -> str:
        text.value = b""
        done, _ = faults.call(MOST, lib.thimble_generate, *generate(), *end)
        assert not (done or 0) & 0xFFFFFFFF, error.value
        return text.value.decode()

    want = answer()
    for runner in loaded[:-1]:  # what a load can do without
        assert answer() == want
        lib.thimble_free(runner)
    runner = loaded[-1]
    sweep("generate", lib.thimble_generate, generate, False)
    assert answer() == want
    lib.thimble_save(runner, name, error, 1024)
    old = session.read_bytes()
    sweep("save", lib.thimble_save, lambda: [runner, address(name)], False)
    assert session.read_bytes() == old
    sweep("restore", lib.thimble_restore, lambda: [runner, address(name)], False)
    settings = lib.thimble_settings_new()
    for function in (lib.thimble_settings_stop, lib.thimble_settings_prediction):
        sweep("set", function, lambda: [settings, address(prompt), len(prompt.value)], False)
    lib.thimble_settings_free(settings)
    for fork in sweep("fork", lib.thimble_fork, lambda: [runner], True):
        lib.thimble_free(fork)
    constrain = [runner, 2, address(regex), len(regex.value)]
    sweep("constrain", lib.thimble_constrain, lambda: constrain, False)
    constrained = answer()
    assert 3 <= len(constrained) <= 5, constrained
    lib.thimble_constrain(runner, 0, None, 0, error, 1024)
    assert answer() == want
    lib.thimble_free(runner)
    assert {item.name for item in Path(folder).iterdir()} <= {"session", Path(model).name}
    print(json.dumps(said))


if __name__ == "__main__":
    main()
