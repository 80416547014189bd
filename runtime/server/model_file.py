"""The file of a loaded model: whether it is still the one that was loaded."""

from pathlib import Path


class ModelFile:
    """
    Attributes:
        name: without the folder, which is not for clients.
    """

    def __init__(self, path: Path) -> None:
        self.name = path.name
        self._path = path
        self._known = self._state()

    def loaded(self) -> None:
        """It is loaded now."""
        self._known = self._state()

    @property
    def change(self) -> str | None:
        """What befell it since it was loaded; None: nothing, or it was removed, without which a
        model can be at work."""
        if self._state() in (None, self._known):
            return None
        return f"{self.name} was changed while it was in use"

    def without_folder(self, reason: str) -> str:
        """What names the file, for clients."""
        return reason.replace(str(self._path), self.name)

    def _state(self) -> tuple[int, int, int] | None:
        try:
            state = self._path.stat()
        except OSError:
            return None
        return state.st_ino, state.st_size, state.st_mtime_ns
