"""Does Phoenix show input, output, stop reason and tokens of a nested run, and the tokens only once?

Usage: python scripts/loopback_only.py python scripts/check_phoenix.py [--picture FILE]
       python scripts/check_phoenix.py --install        (once, with a network)

Starts Phoenix from the side environment .venv-phoenix on loopback, with a folder of its own, sends one nested run
through the real exporter and asks Phoenix's own API what it made of it.
"""

import argparse
import json
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
    post,
    screenshot,
    send_nested_run,
    server,
    side_environment,
    wait_for,
)

PORT = 16006
URL = f"http://127.0.0.1:{PORT}"
QUERY = """{ projects { edges { node { id name traceCount
  spans(first: 50) { edges { node {
    name spanKind statusCode parentId spanId attributes
    input { value } output { value }
    tokenCountPrompt tokenCountCompletion
    cumulativeTokenCountPrompt cumulativeTokenCountCompletion
    trace { traceId }
  } } } } } } }"""


def spans_of(project: str) -> tuple[str, dict[str, Any]]:
    """The project's id, and its spans by name."""
    answer = post(f"{URL}/graphql", {"query": QUERY})
    if "errors" in answer:
        raise SystemExit(f"Phoenix refuses the query: {answer['errors']}")
    node = {e["node"]["name"]: e["node"] for e in answer["data"]["projects"]["edges"]}[project]
    return node["id"], {e["node"]["name"]: e["node"] for e in node["spans"]["edges"]}


def verify(spans: dict[str, Any]) -> None:
    """Everything that the issue promises, as Phoenix tells it."""
    root, child = spans["invoke_agent planner"], spans["invoke_agent counter"]
    call, function = spans["execute_tool Agent"], spans["execute_tool add"]
    check("kinds", ["agent", "tool", "agent", "tool"], [s["spanKind"] for s in (root, call, child, function)])
    parents = [root["parentId"] or None, call["parentId"], child["parentId"], function["parentId"]]
    check("tree", [None, root["spanId"], call["spanId"], root["spanId"]], parents)
    check("input and output of the root", (PROMPT, ANSWER), (root["input"]["value"], root["output"]["value"]))
    check("input and output of the child", (TASK, PARTIAL), (child["input"]["value"], child["output"]["value"]))
    check("output of the delegation", PARTIAL, call["output"]["value"])
    told = [json.loads(span["attributes"]) for span in (root, child)]
    check("stop reasons, raw", ["end_turn", "max_tokens"], [t["lastsay"]["stop_reason"]["raw"] for t in told])
    finish = [t["gen_ai"]["response"]["finish_reasons"] for t in told]
    check("stop reasons, mapped", [["stop"], ["length"]], finish)
    calls = [spans["chat large"], spans["chat small"]]
    check("model calls", ["llm", "llm"], [s["spanKind"] for s in calls])
    own = [(s["tokenCountPrompt"], s["tokenCountCompletion"]) for s in calls]
    check("tokens of the calls", [PLANNER_TOKENS, COUNTER_TOKENS], own)
    sums = [(s["cumulativeTokenCountPrompt"], s["cumulativeTokenCountCompletion"]) for s in (child, root)]
    once = tuple(a + b for a, b in zip(PLANNER_TOKENS, COUNTER_TOKENS, strict=True))
    check("tokens of the child and of the whole trace, each counted once", [COUNTER_TOKENS, once], sums)


def main() -> None:
    """Run the check."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--install", action="store_true", help="make the side environment first")
    parser.add_argument("--picture", type=Path, help="where to put a picture of the trace")
    options = parser.parse_args()
    programs = side_environment(".venv-phoenix", "arize-phoenix", install=options.install)
    with tempfile.TemporaryDirectory() as folder:
        variables = {
            "PHOENIX_PORT": str(PORT),
            "PHOENIX_GRPC_PORT": "16317",
            "PHOENIX_HOST": "127.0.0.1",
            "PHOENIX_WORKING_DIR": folder,
            "PHOENIX_TELEMETRY_ENABLED": "false",
        }
        with server([programs / "phoenix", "serve"], f"{URL}/healthz", variables, Path(folder) / "log"):
            send_nested_run(f"{URL}/v1/traces", {"x-project-name": "lastsay"}, "genai-1.41+openinference")
            wait_for(lambda: len(spans_of("lastsay")[1]) == 6, seconds=60)
            project, spans = spans_of("lastsay")
            if options.picture is not None:
                trace = spans["invoke_agent planner"]["trace"]["traceId"]
                screenshot(f"{URL}/projects/{project}/traces/{trace}", options.picture)
            verify(spans)


if __name__ == "__main__":
    main()
