"""The command line. Heavy imports live inside the commands."""
