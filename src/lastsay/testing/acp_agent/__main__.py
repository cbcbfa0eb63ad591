"""``python -m lastsay.testing.acp_agent``."""

from lastsay.testing.acp_agent import main

main()
