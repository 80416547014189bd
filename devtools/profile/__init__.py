"""From a recorded run to the lines of source that took its time."""
