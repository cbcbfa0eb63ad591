"""How many examples a property looks at."""

import os

from hypothesis import settings

FULL = os.environ.get("LASTSAY_EXAMPLES") == "full"
"""Set in CI. The suite that a developer runs all day looks at a fortieth."""


def examples(full: int) -> settings:
    """Settings of a property: `full` examples in CI, a fortieth of them (25 at least) otherwise."""
    return settings(max_examples=full if FULL else max(25, full // 40))
