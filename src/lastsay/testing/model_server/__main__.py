"""Run the scripted model server by hand: ``python -m lastsay.testing.model_server --port 8080``."""

import argparse
import sys
import threading
from contextlib import suppress

from lastsay.testing.model_server import BUILT_IN, model_server


def main(arguments: list[str] | None = None) -> int:
    """Serve until interrupted; the exit status."""
    parser = argparse.ArgumentParser(prog="python -m lastsay.testing.model_server", description=__doc__)
    parser.add_argument("--port", type=int, default=0, help="TCP port on 127.0.0.1 (default: a free one)")
    parser.add_argument("--default", default="text", help="scenario of prompts without a marker (default: text)")
    parser.add_argument("--list", action="store_true", help="list the scenarios and leave")
    options = parser.parse_args(arguments)
    if options.list:
        sys.stdout.writelines(f"{scenario.name:26} {scenario.about}\n" for scenario in BUILT_IN)
        return 0
    with model_server(port=options.port, default=options.default) as server:
        sys.stdout.write(f"{server.url}\n")
        sys.stdout.flush()
        with suppress(KeyboardInterrupt):
            threading.Event().wait()
    return 0


if __name__ == "__main__":
    sys.exit(main())
