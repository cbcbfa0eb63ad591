"""The streamed text on a terminal: its newest lines, gone when the final text is printed."""

from typing import Final, Self

from rich.console import Console
from rich.live import Live as RichLive
from rich.text import Text

__all__ = ("Live",)

_LINES: Final = 12
"""Lines of the streamed text that are shown."""
_KEPT: Final = 8192
"""Characters that are kept to show them."""


class Live:
    """A display on standard error that is called with each piece of text."""

    def __init__(self) -> None:
        self._live = RichLive(console=Console(stderr=True), transient=True, refresh_per_second=12)
        self._text = ""

    def __enter__(self) -> Self:
        self._live.__enter__()
        return self

    def __exit__(self, *exception: object) -> None:
        self._live.__exit__(None, None, None)

    def __call__(self, text: str) -> None:
        """Show this piece too."""
        self._text = (self._text + text)[-_KEPT:]
        width = max(20, self._live.console.width)
        lines = Text(self._text, "dim").wrap(self._live.console, width)[-_LINES:]
        self._live.update(Text("\n").join(lines))
