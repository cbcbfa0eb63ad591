"""The backend contract on real harnesses, against the scripted model server. Run inside a loopback namespace."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from lastsay.backends import claude, dsh
from lastsay.testing import check_backend, claude_offline_options
from lastsay.testing.model_server import ModelServer, marker, model_server

pytestmark = [pytest.mark.live, pytest.mark.asyncio, pytest.mark.timeout(300)]

ROOT = Path(__file__).resolve().parent.parent.parent
PROMPT = f"Go on. {marker('slow', delay='0.02')}"


@pytest.fixture(scope="module")
def server() -> Iterator[ModelServer]:
    """A model server for all tests."""
    with model_server() as running:
        yield running


async def test_claude(server: ModelServer, tmp_path: Path) -> None:
    """Claude Code through its SDK keeps the contract."""
    options = claude_offline_options(server.url, tmp_path)
    await check_backend(lambda: claude.stream(PROMPT, options), limit=100)


@pytest.mark.parametrize("version", ["0.2.1rc2", "0.1.5rc1"])
async def test_dsh(server: ModelServer, tmp_path: Path, version: str) -> None:
    """DeepSeek Harness over its SDK protocol keeps it, in two generations."""
    program = ROOT / f".venv-dsh-{version}" / "bin" / "dsh"
    env = {
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path),
        "DEEPSEEK_API_KEY": "none",
        "DEEPSEEK_BASE_URL": server.url,
        "DEEPSEEK_SEARCH_BASE_URL": server.url,
        "DSH_TELEMETRY_MODE": "DISABLED",
        "DSH_TELEMETRY_OTLP_URL": server.url,
    }
    work = tmp_path / "work"
    work.mkdir()

    await check_backend(
        lambda: dsh.stream(
            PROMPT, home=tmp_path / "dsh", cwd=work, command=[str(program), "--profile", "sdk"], env=env
        ),
        limit=100,
    )
