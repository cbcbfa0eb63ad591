"""Does MLflow show input, output, stop reason and tokens of a nested run, and the tokens only once?

Usage: python scripts/loopback_only.py python scripts/check_mlflow.py [--picture FILE]
       python scripts/check_mlflow.py --install        (once, with a network)

Starts MLflow from the side environment .venv-mlflow on loopback, with a folder of its own, sends one nested run through
the real exporter and asks MLflow's own client what it made of it. Two profiles are tried.
"""

import argparse
import json
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from _pipeline_check import (
    ANSWER,
    COUNTER_TOKENS,
    PARTIAL,
    PLANNER_TOKENS,
    PROMPT,
    TASK,
    check,
    screenshot,
    send_nested_run,
    server,
    side_environment,
    wait_for,
)

PORT = 15005
URL = f"http://127.0.0.1:{PORT}"

# Runs in the side environment: the client is MLflow's own.
ASK = """
import json, sys
from mlflow import MlflowClient
client = MlflowClient(sys.argv[1])
traces = client.search_traces(locations=["0"], max_results=10)
out = []
for trace in traces:
    info = trace.info
    out.append({
        "id": info.trace_id, "state": str(info.state), "tokens": info.token_usage,
        "request": info.request_preview, "response": info.response_preview,
        "spans": [{
            "name": s.name, "type": s.span_type, "id": s.span_id, "parent": s.parent_id, "inputs": s.inputs,
            "outputs": s.outputs, "attributes": {k: v for k, v in s.attributes.items()},
        } for s in trace.data.spans],
    })
print(json.dumps(out, default=str))
"""

# Away with what a first visitor is shown, then open the trace.
CLICKS = (
    "[...document.querySelectorAll('button')].find(b => b.innerText == 'Got it')?.click()",
    "document.querySelector('[aria-label*=lose]')?.click()",
    f"[...document.querySelectorAll('a,span')].find(e => e.innerText?.includes({PROMPT[:8]!r}))?.click()",
    "",
)
VARIABLES = {"DO_NOT_TRACK": "true", "MLFLOW_DISABLE_TELEMETRY": "true"}


def traces(python: Path, folder: str) -> list[dict[str, Any]]:
    """What MLflow has, the newest first."""
    environment = {**VARIABLES, "HOME": folder, "PATH": "/usr/bin:/bin"}
    done = subprocess.run([python, "-c", ASK, URL], capture_output=True, text=True, env=environment, check=False)
    if done.returncode != 0:
        raise SystemExit(done.stderr[-2000:])
    found: list[dict[str, Any]] = json.loads(done.stdout)
    return found


def _texts(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def verify(trace: dict[str, Any]) -> None:
    """Everything that the issue promises, as MLflow tells it."""
    spans = {span["name"]: span for span in trace["spans"]}
    root, child = spans["invoke_agent planner"], spans["invoke_agent counter"]
    call, function = spans["execute_tool Agent"], spans["execute_tool add"]
    check("types", ["AGENT", "TOOL", "AGENT", "TOOL"], [s["type"] for s in (root, call, child, function)])
    parents = [root["parent"], call["parent"], child["parent"], function["parent"]]
    check("tree", [None, root["id"], call["id"], root["id"]], parents)
    for name, text, told in (
        ("input of the trace", PROMPT, trace["request"]),
        ("output of the trace", ANSWER, trace["response"]),
        ("input of the child", TASK, child["inputs"]),
        ("output of the child", PARTIAL, child["outputs"]),
        ("output of the delegation", PARTIAL, call["outputs"]),
    ):
        check(f"{name} has {text!r}", expected=True, got=text in _texts(told))
    told = [span["attributes"] for span in (root, child)]
    check("stop reasons, raw", ["end_turn", "max_tokens"], [t["lastsay.stop_reason.raw"] for t in told])
    finish = [list(t["gen_ai.response.finish_reasons"]) for t in told]
    check("stop reasons, mapped", [["stop"], ["length"]], finish)
    both = [a + b for a, b in zip(PLANNER_TOKENS, COUNTER_TOKENS, strict=True)]
    total = [trace["tokens"][key] for key in ("input_tokens", "output_tokens")]
    check("tokens of the whole trace, counted once", both, total)


def main() -> None:
    """Run the check."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--install", action="store_true", help="make the side environment first")
    parser.add_argument("--picture", type=Path, help="where to put a picture of the trace")
    options = parser.parse_args()
    programs = side_environment(".venv-mlflow", "mlflow", install=options.install)
    with tempfile.TemporaryDirectory() as folder:
        command: list[str | Path] = [programs / "mlflow", "server", "--host", "127.0.0.1", "--port", str(PORT)]
        command += ["--workers", "1", "--backend-store-uri", f"sqlite:///{folder}/mlflow.db"]
        with server(command, f"{URL}/health", VARIABLES, Path(folder) / "log"):
            for number, profile in enumerate(("genai-1.41", "genai-1.41+openinference"), 1):
                send_nested_run(f"{URL}/v1/traces", {"x-mlflow-experiment-id": "0"}, profile)
                found = wait_for(lambda: len(traces(programs / "python", folder)) == number, seconds=60)  # noqa: B023
                assert found
                newest = traces(programs / "python", folder)[0]
                print(f"-- {profile}")
                if number == 1 and options.picture is not None:
                    page = f"{URL}/#/experiments/0/traces?selectedEvaluationId={newest['id']}"
                    screenshot(page, options.picture, wait_seconds=25, scripts=CLICKS)
                verify(newest)


if __name__ == "__main__":
    main()
