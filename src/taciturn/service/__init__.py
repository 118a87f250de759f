"""The decision service: a journal, agents that are a function of it, and HTTP in front."""
