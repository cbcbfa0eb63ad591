"""One agreed answer from every child agent."""
