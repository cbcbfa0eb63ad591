"""Every error that lastsay raises: one root, three branches.

A child agent that fails is not an error here: it is an outcome with a stop reason. These classes are for the cases in
which there is no outcome to give: the source could not be opened or read (`SourceError`), a function result was
refused (`ReceiptError`), or the library was called wrongly (`UsageError`).
"""

__all__ = ("LastsayError", "MissingExtraError", "ReceiptError", "SourceError", "UsageError")


class LastsayError(Exception):
    """The root of all errors that lastsay raises on purpose. Any other exception is a bug worth reporting."""


class SourceError(LastsayError):
    """A child's event source could not be started or read; the message names the source and what to do."""


class ReceiptError(LastsayError):
    """A function result was refused or a confirmation cannot be given; nothing was consumed by the refused call."""


class UsageError(LastsayError):
    """The library was called in a way that cannot work; the message names the argument and the accepted form."""


class MissingExtraError(UsageError):
    """An optional dependency is not installed; the message names the extra to install.

    Args:
        extra: name of the extra, as in ``pip install 'lastsay[NAME]'``.
        needed_for: what the caller wanted to do.
    """

    def __init__(self, extra: str, needed_for: str) -> None:
        self.extra = extra
        super().__init__(f"{needed_for} needs an optional dependency: pip install 'lastsay[{extra}]'")
