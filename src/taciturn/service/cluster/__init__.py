"""The service on several processes and machines: shards that own agents, fronts that route to them, a supervisor."""
