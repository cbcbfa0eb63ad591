"""What is kept: record and replay, and readers of the transcripts of others."""
