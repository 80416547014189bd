"""Whether the Hugging Face hub can be reached, found out in a few seconds."""

import os
import threading
import urllib.error
import urllib.request

_HUB = "https://huggingface.co"
_SECONDS = 5.0


def use_cache_without_network() -> None:
    """Makes Hugging Face's libraries use only what is on this machine, if the hub does not answer.

    Otherwise they would wait and try again, for minutes. They read the setting when they are
    imported.
    """
    if "HF_HUB_OFFLINE" not in os.environ and not hub_answers(os.environ.get("HF_ENDPOINT", _HUB)):
        os.environ["HF_HUB_OFFLINE"] = "1"


def hub_answers(address: str, seconds: float = _SECONDS) -> bool:
    """Whether a server answers in so many seconds, with whatever status."""
    answered = threading.Event()

    def ask() -> None:
        try:
            urllib.request.urlopen(urllib.request.Request(address, method="HEAD"), timeout=seconds)
        except urllib.error.HTTPError:
            pass
        except (OSError, ValueError):
            return
        answered.set()

    # In a thread, because looking up a name has no time limit of its own.
    thread = threading.Thread(target=ask, daemon=True)
    thread.start()
    thread.join(seconds)
    return answered.is_set()
