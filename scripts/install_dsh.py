"""Install DeepSeek Harness into side environments, one per version: `.venv-dsh-VERSION` beside this folder.

Usage: python scripts/install_dsh.py [VERSION...]

Each is about 350 MB and holds a self-contained executable: no Node is needed. The versions speak two different
generations of the event shape, and the live tests run against both. What is installed already is left alone.
"""

import subprocess
import sys
import venv
from pathlib import Path

VERSIONS = ("0.2.1rc2", "0.1.5rc1")
ROOT = Path(__file__).resolve().parent.parent


def environment_of(version: str) -> Path:
    """Where that version is, or would be."""
    return ROOT / f".venv-dsh-{version}"


def install(version: str) -> None:
    """Make the side environment, unless it is there and complete."""
    folder = environment_of(version)
    done = folder / "installed"
    if done.is_file():
        print(f"dsh {version}: already in {folder.name}")
        return
    print(f"dsh {version}: installing into {folder.name}", flush=True)
    venv.create(folder, with_pip=True, clear=True)
    pip = [folder / "bin" / "python", "-m", "pip", "--disable-pip-version-check", "install", "-q"]
    subprocess.run([*pip, f"deepseek-harness-sdk=={version}"], check=True)
    done.touch()


if __name__ == "__main__":
    for wanted in sys.argv[1:] or VERSIONS:
        install(wanted)
