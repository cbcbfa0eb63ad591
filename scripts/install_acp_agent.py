"""Install a real ACP agent (opencode) into a folder of its own, and print the path of its program.

Usage: python scripts/install_acp_agent.py FOLDER

The program comes from npm as a binary for this platform; no install script runs and nothing else is fetched. A second
run finds what is there. Live tests take the folder from the environment variable LASTSAY_ACP_AGENT.
"""

import platform
import shutil
import subprocess
import sys
from pathlib import Path

VERSION = "1.18.33"
_MACHINES = {"x86_64": "x64", "amd64": "x64", "aarch64": "arm64", "arm64": "arm64"}


def package() -> str:
    """The npm package that holds the binary for this platform."""
    system = platform.system().lower()
    machine = _MACHINES.get(platform.machine().lower())
    if machine is None or system not in ("linux", "darwin"):
        sys.exit(f"opencode {VERSION} has no binary for {system} on {platform.machine()}")
    return f"opencode-{system}-{machine}"


def install(folder: Path) -> Path:
    """The program, installed below `folder` if it is not there yet."""
    name = package()
    program = folder / "node_modules" / name / "bin" / "opencode"
    stamp = folder / "version"
    if program.is_file() and stamp.is_file() and stamp.read_text() == VERSION:
        return program
    npm = shutil.which("npm")
    if npm is None:
        sys.exit("npm is needed to install opencode; install Node.js 20 or newer first")
    folder.mkdir(parents=True, exist_ok=True)
    command = [npm, "install", "--prefix", str(folder), "--no-save", "--ignore-scripts", "--no-audit", "--no-fund"]
    subprocess.run([*command, f"{name}@{VERSION}"], check=True, stdout=sys.stderr)
    if not program.is_file():
        sys.exit(f"npm installed {name} {VERSION}, but {program} is not there")
    stamp.write_text(VERSION)
    return program


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit((__doc__ or "").strip())
    print(install(Path(sys.argv[1]).resolve()))
