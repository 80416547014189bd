"""What ziglang needs to link for iOS without Apple's SDK.

ziglang brings the headers that all of Apple's systems share, and the list of what macOS's
libSystem exports. What we use, C, POSIX and threads, has the same names on iOS.
"""

import json
from pathlib import Path

VERSION = "16.0"
TARGETS = ("arm64-ios", "arm64-ios-simulator")


def write_ios_sdk(zig: Path, directory: Path) -> Path:
    """Writes a folder in the form of an SDK; returns the file for ziglang's ZIG_LIBC."""
    library = zig.parent / "lib" / "libc"
    include, system = library / "include" / "any-darwin-any", directory / "usr" / "lib"
    system.mkdir(parents=True, exist_ok=True)
    exports = (library / "darwin" / "libSystem.tbd").read_text(encoding="utf-8")
    added = "".join(f", {target}" for target in TARGETS)
    (system / "libSystem.tbd").write_text(
        exports.replace("x86_64-macos", f"x86_64-macos{added}"), encoding="utf-8"
    )
    settings = {"Version": VERSION, "MinimalDisplayName": VERSION}
    (directory / "SDKSettings.json").write_text(json.dumps(settings))
    fields = {
        "include_dir": include,
        "sys_include_dir": include,
        "crt_dir": system,
        "msvc_lib_dir": "",
        "kernel32_lib_dir": "",
        "gcc_dir": "",
        "darwin_sdk_dir": directory,
    }
    paths = directory / "libc.txt"
    paths.write_text("".join(f"{name}={value}\n" for name, value in fields.items()))
    return paths
