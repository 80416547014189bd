"""Silences the known noise of dependencies as the command line does; imported before they are, and
behind the look at the sources of what is shared between runs."""

import sys

import support.once  # noqa: F401

from exporter.command_line.quiet import silence_known_noise

silence_known_noise()
# coremltools would import it for converters that nothing here uses: seconds in each process.
sys.modules["sklearn"] = None  # type: ignore[assignment]
