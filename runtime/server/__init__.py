"""A server for models, with the HTTP interfaces that clients know."""
