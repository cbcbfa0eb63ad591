"""What is decided: one fold, its policies, and the outcome. Synchronous, total, no clock."""
