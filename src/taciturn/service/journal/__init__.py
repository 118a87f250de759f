"""Durable storage: the append-only journal in SQLite or PostgreSQL, group commit, snapshots and repair."""
