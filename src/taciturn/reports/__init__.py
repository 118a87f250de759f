"""Reports: tables, charts and pages over the files that experiments wrote. Nothing here runs an agent."""
