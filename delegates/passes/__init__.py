"""Passes over a captured program that several delegates share."""
