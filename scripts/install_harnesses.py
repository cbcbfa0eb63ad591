"""Install every real harness that the live tests run, each into a side environment of its own.

Usage: python scripts/install_harnesses.py

Harnesses pin versions that do not go together, and none of them is a dependency of the library.
"""

import subprocess
import sys
from pathlib import Path

SCRIPTS = Path(__file__).resolve().parent
INSTALLERS = ("install_dsh.py", "install_acp_agent.py", "install_origin_fold.py")


def main() -> None:
    """Run the installers one after the other; each knows what it has already done."""
    for installer in INSTALLERS:
        print(f"install_harnesses: {installer}", flush=True)
        subprocess.run([sys.executable, SCRIPTS / installer], check=True)


if __name__ == "__main__":
    main()
