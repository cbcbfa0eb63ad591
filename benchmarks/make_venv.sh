#!/bin/sh
# Makes .venv-bench with every peer of the full table, and prints how to use it.
# usage: sh benchmarks/make_venv.sh [PYTHON]
set -eu
cd "$(dirname "$0")/.."
"${1:-python3}" -m venv .venv-bench
.venv-bench/bin/pip install --quiet --upgrade pip
.venv-bench/bin/pip install --quiet --editable ".[otel,acp,zstd]" "aiostream>=0.8" anthropic openai "pydantic-ai-slim>=2" litellm
echo "now run: .venv-bench/bin/python -m benchmarks"
