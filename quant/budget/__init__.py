"""A budget of bits or bytes, spread over a model's parts."""
