"""The settings and the printed results of published papers, as files that a person can read."""
