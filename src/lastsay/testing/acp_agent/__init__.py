"""A scripted ACP agent that misbehaves on demand.

    python -m lastsay.testing.acp_agent --mode glued_text
    python -m lastsay.testing.acp_agent --list

It speaks the Agent Client Protocol over standard input and output and plays one mode for every prompt. Every mode was
seen with a real agent or breaks a client of the field; its docstring says what the child does, and `EXPECTED` what a
client must make of it. The package needs the standard library only and imports nothing of lastsay, so that `command`
can start it in 50 ms.
"""

import argparse
import signal
import sys
import threading
from pathlib import Path

from ._agent import Agent
from ._table import EXPECTED, MODES, Expected

__all__ = ("EXPECTED", "MODES", "Expected", "command", "main")


def command(mode: str, *arguments: str) -> list[str]:
    """The command that starts the agent in that mode, without importing lastsay.

    Args:
        mode: a name in `MODES`.
        arguments: further arguments of its command line.
    """
    folder = str(Path(__file__).resolve().parent.parent)
    code = f"import sys; sys.path.append({folder!r}); import acp_agent; acp_agent.main(sys.argv[1:])"
    return [sys.executable, "-S", "-c", code, "--mode", mode, *arguments]


def main(arguments: list[str] | None = None) -> None:
    """Run the agent until its input ends."""
    parser = argparse.ArgumentParser(prog="acp_agent", description="A scripted ACP agent.")
    parser.add_argument("--mode", choices=sorted(MODES), default="normal")
    parser.add_argument("--name", default="scripted", help="what it calls itself")
    parser.add_argument("--count", type=int, default=100_000, help="updates of the mode flood")
    parser.add_argument("--size", type=int, default=5_000_000, help="bytes of the modes long_line and stderr_flood")
    parser.add_argument("--list", action="store_true", help="list the modes")
    options = parser.parse_args(arguments)
    if options.list:
        for name in sorted(MODES):
            sys.stdout.write(f"{name}: {(MODES[name].__doc__ or '').strip()}\n")
        return
    if options.mode == "deaf":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    agent = Agent(options, MODES[options.mode])
    threading.Thread(target=agent.read, daemon=True).start()
    agent.serve()
