"""Where events come from: one file or folder per harness, one extra each."""
