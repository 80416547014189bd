"""A server with OpenAI's HTTP interface for one model."""
