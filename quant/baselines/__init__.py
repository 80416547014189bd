"""Methods that are here to be compared with."""
