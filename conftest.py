"""The examples in README, docs and docstrings are run as tests."""

from doctest import ELLIPSIS, NORMALIZE_WHITESPACE

import pytest
from sybil import Sybil
from sybil.document import PythonDocStringDocument
from sybil.integration.pytest import SybilItem
from sybil.parsers.markdown import PythonCodeBlockParser
from sybil.parsers.rest import DocTestParser

_DOCTEST = DocTestParser(optionflags=ELLIPSIS | NORMALIZE_WHITESPACE)

# Blocks marked "python no-run" need a harness that a test machine has not, and are not matched.
_PAGES = Sybil(parsers=[PythonCodeBlockParser(), _DOCTEST], patterns=["*.md"])
_DOCSTRINGS = Sybil(
    parsers=[_DOCTEST], path="src", patterns=["**/*.py"], document_types={".py": PythonDocStringDocument}
)

pytest_collect_file = (_PAGES + _DOCSTRINGS).pytest()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The examples of a page build on each other: with ``--dist loadgroup`` one worker gets them all."""
    for item in items:
        if isinstance(item, SybilItem):
            item.add_marker(pytest.mark.xdist_group(str(item.path)))
