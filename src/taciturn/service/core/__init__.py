"""Agents behind a journal: operations, sessions, the worker thread of each agent, and the service that owns them."""
