"""The Java API of runtime/android as a jar, and as an AAR, Android's archive of a library."""

import shutil
import subprocess
import tempfile
import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path

from runtime.build import find_jdk
from runtime.errors import BuildError

ANDROID = Path(__file__).resolve().parents[1] / "android"
MODULE = ANDROID / "thimble"
NAMESPACE = "dev.thimble"
LEAST_SDK = 28  # of thimble/build.gradle.kts and CMakePresets.json
ABI = "arm64-v8a"
LIBRARY = "libthimble_jni.so"
RELEASE = "11"  # what Android's tools and every JDK in use read
# What tools ask of an AAR's reader: nothing.
METADATA = "aarFormatVersion=1.0\naarMetadataVersion=1.0\nminCompileSdk=1\n"
EPOCH = (1980, 1, 1, 0, 0, 0)  # the same bytes whenever it is made


def write_jar(path: Path) -> None:
    """Compiles the Java API into a jar.

    Raises:
        BuildError: there is no JDK, or its compiler failed.
    """
    jdk = find_jdk()
    if jdk is None:
        raise BuildError("no JDK was found: install one with jni.h, or set JAVA_HOME to it")
    sources = sorted((MODULE / "src" / "main" / "java").rglob("*.java"))
    with tempfile.TemporaryDirectory() as temporary:
        classes = Path(temporary)
        javac = str(jdk / "bin" / "javac")
        command: list[str | Path] = [
            javac,
            "--release",
            RELEASE,
            "-encoding",
            "UTF-8",
            "-Xlint:all",
        ]
        result = subprocess.run(
            [*command, "-Werror", "-d", classes, *sources],
            capture_output=True,
            text=True,
            check=False,
        )
        if result.returncode != 0:
            raise BuildError(f"javac failed with code {result.returncode}:\n{result.stderr}")
        entries = {
            str(file.relative_to(classes)): file.read_bytes()
            for file in sorted(classes.rglob("*.class"))
        }
    _write_zip(path, {"META-INF/MANIFEST.MF": b"Manifest-Version: 1.0\n\n", **entries})


def write_aar(path: Path, library: Path | None) -> None:
    """Writes the Java API and its native library for 64-bit Arm as an AAR.

    Args:
        library: libthimble_jni.so; None: the AAR has none.

    Raises:
        BuildError: there is no JDK, or its compiler failed.
    """
    with tempfile.TemporaryDirectory() as temporary:
        jar = Path(temporary) / "classes.jar"
        write_jar(jar)
        entries = {
            "AndroidManifest.xml": _manifest(),
            "classes.jar": jar.read_bytes(),
            "R.txt": b"",
            "proguard.txt": (MODULE / "consumer-rules.pro").read_bytes(),
            "META-INF/com/android/build/gradle/aar-metadata.properties": METADATA.encode(),
        }
    if library is not None:
        entries[f"jni/{ABI}/{LIBRARY}"] = library.read_bytes()
    _write_zip(path, entries)


def copy_library(built: Path, directory: Path) -> Path:
    """Copies the native library to a directory; returns where it is."""
    directory.mkdir(parents=True, exist_ok=True)
    return Path(shutil.copy2(built / LIBRARY, directory / LIBRARY))


def _manifest() -> bytes:
    """As Gradle writes it from the module's, its namespace and its least version of Android."""
    text = (MODULE / "src" / "main" / "AndroidManifest.xml").read_text(encoding="utf-8")
    begun = text.replace("<manifest ", f'<manifest package="{NAMESPACE}" ', 1)
    sdk = f'>\n    <uses-sdk android:minSdkVersion="{LEAST_SDK}" />\n</manifest>'
    return begun.replace(" />", sdk, 1).encode()


def _write_zip(path: Path, entries: Mapping[str, bytes]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in _in_order(entries.items()):
            archive.writestr(zipfile.ZipInfo(name, EPOCH), data, zipfile.ZIP_DEFLATED)


def _in_order(entries: Iterable[tuple[str, bytes]]) -> list[tuple[str, bytes]]:
    """Sorted; a jar's manifest comes first."""
    return sorted(entries, key=lambda entry: (entry[0] != "META-INF/MANIFEST.MF", entry[0]))
