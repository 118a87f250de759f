"""What agents are composed of: regressions, graphs, encoders, imputers."""
