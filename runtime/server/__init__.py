"""A server for one model, with the HTTP interfaces that clients know."""
