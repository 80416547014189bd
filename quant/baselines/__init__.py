"""Methods for comparison only."""
