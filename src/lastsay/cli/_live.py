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
    """A display on standard error that is called with each piece of text.

    A piece is only kept; what is shown is made when the display is drawn, a few times a second, however fast they come.
    """

    def __init__(self) -> None:
        self._text = ""
        self._console = Console(stderr=True)
        self._live = RichLive(console=self._console, transient=True, refresh_per_second=12, get_renderable=self.shown)

    def __enter__(self) -> Self:
        self._live.__enter__()
        return self

    def __exit__(self, *exception: object) -> None:
        self._live.__exit__(None, None, None)

    def __call__(self, text: str) -> None:
        """Show this piece too."""
        self._text = (self._text + text)[-_KEPT:]

    def shown(self) -> Text:
        """The newest lines."""
        width = max(20, self._console.width)
        lines = Text(self._text[-_LINES * width :], "dim").wrap(self._console, width)[-_LINES:]
        return Text("\n").join(lines)
