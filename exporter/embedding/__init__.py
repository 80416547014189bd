"""Models that embed texts: from an encoder's checkpoint to a `.pte`."""
