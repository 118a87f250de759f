"""The agents: state that changes by learning. None of them can see a label; they only hear feedback."""
