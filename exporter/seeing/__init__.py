"""Models that see: how pictures become rows of a language model."""
