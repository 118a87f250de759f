"""The decision service: a journal, agents that are a function of it, and an HTTP API with a page."""
