"""Decoders as data: a spec says what a model computes, blocks compute it, families read configs."""
