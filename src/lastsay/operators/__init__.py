"""How streams compose: Stream, the fused pipeline, one operator per file."""
