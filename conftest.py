"""The examples in README, docs and docstrings are run as tests."""

from doctest import ELLIPSIS, NORMALIZE_WHITESPACE

from sybil import Sybil
from sybil.document import PythonDocStringDocument
from sybil.parsers.markdown import PythonCodeBlockParser
from sybil.parsers.rest import DocTestParser

_DOCTEST = DocTestParser(optionflags=ELLIPSIS | NORMALIZE_WHITESPACE)

# Blocks marked "python no-run" need a harness that a test machine has not, and are not matched.
_PAGES = Sybil(parsers=[PythonCodeBlockParser(), _DOCTEST], patterns=["*.md"])
_DOCSTRINGS = Sybil(
    parsers=[_DOCTEST], path="src", patterns=["**/*.py"], document_types={".py": PythonDocStringDocument}
)

pytest_collect_file = (_PAGES + _DOCSTRINGS).pytest()
