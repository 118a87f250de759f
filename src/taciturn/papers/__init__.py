"""Settings and printed results of published papers, as TOML files."""
