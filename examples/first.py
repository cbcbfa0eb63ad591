"""The first program of the README: one real Claude Code child, and the one answer that everyone gets."""

import anyio

import lastsay


async def main() -> None:
    """Run a child, watch its text, and print what its parent would be told."""
    stream = lastsay.claude.stream("Say hello in five languages.")
    async with lastsay.open_run(stream, consumers=[lastsay.lifecycle(on_end=print)]) as run:
        async for event in run:
            print(event)
    print(lastsay.tool_result(run.outcome).text)


anyio.run(main)
