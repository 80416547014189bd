"""The Swift package for Apple's systems: runtime/apple with an XCFramework of the C interface."""

import plistlib
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from runtime.build import SOURCE_DIR

APPLE = SOURCE_DIR.parent / "apple"
NAME = "CThimble"
LEFT_OUT = (NAME, "README.md")  # what the XCFramework has


@dataclass(frozen=True)
class Slice:
    """A system that the XCFramework has a library for, by the preset that builds it."""

    platform: str
    variant: str | None
    bundle_platform: str
    least_version: str  # of the toolchain in runtime/cpp/cmake, and of Package.swift

    @property
    def versioned(self) -> bool:
        """Whether a framework keeps its files in Versions/A."""
        return self.platform == "macos"


SLICES = {
    "macos-arm64": Slice("macos", None, "MacOSX", "13.0"),
    "ios-arm64": Slice("ios", None, "iPhoneOS", "16.0"),
    "ios-arm64-simulator": Slice("ios", "simulator", "iPhoneSimulator", "16.0"),
}


def write_package(directory: Path, libraries: Mapping[str, Path], version: str) -> None:
    """Writes the package anew.

    Args:
        libraries: the framework's binary for each of SLICES.
        version: the package's.
    """
    shutil.rmtree(directory, ignore_errors=True)
    shutil.copytree(APPLE, directory, ignore=shutil.ignore_patterns(*LEFT_OUT))
    framework = directory / f"{NAME}.xcframework"
    for preset, library in libraries.items():
        write_framework(framework / preset / f"{NAME}.framework", library, SLICES[preset], version)
    listed = {
        "AvailableLibraries": [_describe(preset, SLICES[preset]) for preset in libraries],
        "CFBundlePackageType": "XFWK",
        "XCFrameworkFormatVersion": "1.0",
    }
    _write_plist(framework / "Info.plist", listed)


def write_framework(directory: Path, library: Path, system: Slice, version: str) -> None:
    """Writes a framework with a binary, its header and its module map."""
    inside = directory / "Versions" / "A" if system.versioned else directory
    for folder in ("Headers", "Modules"):
        (inside / folder).mkdir(parents=True)
    shutil.copy2(library, inside / NAME)
    shutil.copy2(SOURCE_DIR / "c_interface" / "thimble.h", inside / "Headers")
    shutil.copy2(APPLE / NAME / "module.modulemap", inside / "Modules")
    information = {
        "CFBundleExecutable": NAME,
        "CFBundleIdentifier": f"dev.thimble.{NAME}",
        "CFBundleName": NAME,
        "CFBundlePackageType": "FMWK",
        "CFBundleShortVersionString": version,
        "CFBundleVersion": version,
        "CFBundleSupportedPlatforms": [system.bundle_platform],
        "LSMinimumSystemVersion" if system.versioned else "MinimumOSVersion": system.least_version,
    }
    resources = inside / "Resources" if system.versioned else inside
    resources.mkdir(exist_ok=True)
    _write_plist(resources / "Info.plist", information)
    if system.versioned:
        (directory / "Versions" / "Current").symlink_to("A")
        for name in (NAME, "Headers", "Modules", "Resources"):
            (directory / name).symlink_to(Path("Versions") / "Current" / name)


def _describe(preset: str, system: Slice) -> dict[str, Any]:
    framework = Path(f"{NAME}.framework")
    binary = framework / "Versions" / "A" / NAME if system.versioned else framework / NAME
    described: dict[str, Any] = {
        "BinaryPath": str(binary),
        "LibraryIdentifier": preset,
        "LibraryPath": str(framework),
        "SupportedArchitectures": ["arm64"],
        "SupportedPlatform": system.platform,
    }
    return described | ({"SupportedPlatformVariant": system.variant} if system.variant else {})


def _write_plist(path: Path, content: Mapping[str, Any]) -> None:
    path.write_bytes(plistlib.dumps(dict(content)))
