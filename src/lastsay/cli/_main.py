"""The entry: what the whole command line has in common.

* No traceback for what a person can do: usage errors and missing extras are one line and status 2, a source that cannot
  be read is one line and status 6.
* A reader that goes away (``lastsay fold ... | head``) ends the command quietly with status 141, Ctrl-C with 130.
"""

import errno
import os
import sys
from collections.abc import Sequence

from lastsay.cli._status import BROKEN_PIPE, FAILED, INTERRUPTED, USAGE
from lastsay.errors import LastsayError, MissingExtraError, UsageError

__all__ = ("main",)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; the exit status.

    Args:
        arguments: the words after the program's name; None for those of the process.
    """
    try:
        try:
            return _run(arguments)
        finally:
            sys.stdout.flush()
    except BrokenPipeError:
        return _reader_gone()
    except OSError as error:
        if error.errno == errno.EPIPE:
            return _reader_gone()
        return _complain(str(error), FAILED)
    except KeyboardInterrupt:
        return INTERRUPTED


def _run(arguments: Sequence[str] | None) -> int:
    try:
        import click
    except ImportError:
        return _complain(str(MissingExtraError("cli", "the lastsay command")), USAGE)
    from lastsay.cli._commands import commands

    # Not Command.main: that has ideas of its own about broken pipes and Ctrl-C.
    group = commands()
    words = list(sys.argv[1:] if arguments is None else arguments)
    try:
        with group.make_context("lastsay", words) as context:
            result = group.invoke(context)
    except click.exceptions.Exit as leaving:
        return leaving.exit_code
    except click.exceptions.Abort:
        return INTERRUPTED
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except UsageError as error:
        return _complain(str(error), USAGE)
    except LastsayError as error:
        return _complain(str(error), FAILED)
    return result if isinstance(result, int) else 0


def _complain(message: str, status: int) -> int:
    sys.stderr.write(f"lastsay: {message}\n")
    return status


def _reader_gone() -> int:
    # What is still in the buffer has nowhere to go; without this the interpreter complains about it at exit.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return BROKEN_PIPE
