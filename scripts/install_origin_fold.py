"""Install the fold that the canonical rule was taken from into a side folder, `.venv-origin-fold` beside this one.

Usage: python scripts/install_origin_fold.py

DeepSeek Harness publishes its fold as an npm package: 12 MB with what it needs, no install script is run. The live
differential test asks it about random sequences. What is installed already is left alone. Needs Node 20 and npm.
"""

import subprocess
import sys
from pathlib import Path

PACKAGE = "@deepseek-ai/dsh-subagent"
VERSION = "0.1.0-rc.8"
FOLDER = Path(__file__).resolve().parent.parent / ".venv-origin-fold"


def module() -> Path:
    """The folder of the package, where it is installed or would be."""
    return FOLDER / "node_modules" / PACKAGE


def install() -> None:
    """Install it, unless it is there and complete."""
    done = FOLDER / "installed"
    if done.is_file() and done.read_text("utf-8") == VERSION:
        print(f"{PACKAGE} {VERSION}: already in {FOLDER.name}")
        return
    print(f"{PACKAGE} {VERSION}: installing into {FOLDER.name}", flush=True)
    FOLDER.mkdir(exist_ok=True)
    quiet = ["--no-audit", "--no-fund", "--ignore-scripts", "--loglevel=error"]
    found = subprocess.run(["npm", "install", "--prefix", str(FOLDER), *quiet, f"{PACKAGE}@{VERSION}"], check=False)
    if found.returncode != 0:
        sys.exit(f"{PACKAGE} {VERSION}: npm failed")
    done.write_text(VERSION, "utf-8")


if __name__ == "__main__":
    install()
