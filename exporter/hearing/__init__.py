"""Models that hear: from a checkpoint of speech to text to a `.pte`."""
