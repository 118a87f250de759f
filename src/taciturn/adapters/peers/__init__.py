"""Bandits of other libraries as agents; each module imports only the library that it is for."""
