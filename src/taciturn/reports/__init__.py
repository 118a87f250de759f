"""Reports: captions, axes and rounding, over what experiments wrote. Nothing here runs an agent."""
