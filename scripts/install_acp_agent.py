"""Install a real ACP agent (opencode) into a side folder, `.venv-opencode-VERSION` beside this one.

Usage: python scripts/install_acp_agent.py

About 180 MB. The program comes from npm as one binary for this platform; no install script runs and nothing else is
fetched. What is installed already is left alone.
"""

import platform
import shutil
import subprocess
import sys
from pathlib import Path

VERSION = "1.18.33"
FOLDER = Path(__file__).resolve().parent.parent / f".venv-opencode-{VERSION}"
_MACHINES = {"x86_64": "x64", "amd64": "x64", "aarch64": "arm64", "arm64": "arm64"}


def package() -> str:
    """The npm package that holds the binary for this platform."""
    system = platform.system().lower()
    machine = _MACHINES.get(platform.machine().lower())
    if machine is None or system not in ("linux", "darwin"):
        sys.exit(f"opencode {VERSION} has no binary for {system} on {platform.machine()}")
    return f"opencode-{system}-{machine}"


def program() -> Path:
    """Where the program is, or would be."""
    return FOLDER / "node_modules" / package() / "bin" / "opencode"


def install() -> None:
    """Install it, unless it is there and complete."""
    done = FOLDER / "installed"
    if done.is_file():
        print(f"opencode {VERSION}: already in {FOLDER.name}")
        return
    print(f"opencode {VERSION}: installing into {FOLDER.name}", flush=True)
    npm = shutil.which("npm")
    if npm is None:
        sys.exit("npm is needed to install opencode; install Node.js 20 or newer first")
    FOLDER.mkdir(parents=True, exist_ok=True)
    command = [npm, "install", "--prefix", str(FOLDER), "--no-save", "--ignore-scripts", "--no-audit", "--no-fund"]
    subprocess.run([*command, f"{package()}@{VERSION}"], check=True, stdout=subprocess.DEVNULL)
    if not program().is_file():
        sys.exit(f"npm installed {package()} {VERSION}, but {program()} is not there")
    done.touch()


if __name__ == "__main__":
    install()
