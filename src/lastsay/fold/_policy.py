"""Selection policies: frozen values with a name.

A policy is chosen once per run, at the fold, and never by a consumer. Each rule that goes beyond the canonical one is
a field that can be set alone: ``Policy(name="mine", substance=True)``. The name travels with the outcome, the end
event, the span and the log.
"""

from typing import Final

import msgspec

from lastsay.errors import UsageError

__all__ = ("ANSWER", "CANONICAL", "POLICIES", "Policy", "policy_named")


class Policy(msgspec.Struct, frozen=True, kw_only=True):
    """How a child's output is selected. With all fields off it is the canonical rule.

    Args:
        name: what the policy is called in outcomes, end events, spans and logs.
        substance: a message counts only with non-blank text or an image; tool calls, reasoning and blank text alone do
            not. Off: any content block counts.
        join_pieces: messages cut at max-tokens and continued, with no tool result or user message between, are one.
        drop_aborted: text of an aborted attempt is dropped once a later attempt produced text.
        tail: text streamed after the last complete message is the newest answer, flagged partial, with the message kept
            beside it; after a message that was a finished answer it is the text that stands beside.
        terminal: the end record's own text is the source of last resort.
        structured_first: a declared structured result is the output.
        final_first: a message declared to be the final answer outranks later ones.
        segment: fallback text is the last step's, not the text of all steps in one.
        reactions_aside: a message that answers a prompt injected by the harness (a stop hook) after a finished answer
            does not replace that answer.
    """

    name: str
    substance: bool = False
    join_pieces: bool = False
    drop_aborted: bool = False
    tail: bool = False
    terminal: bool = False
    structured_first: bool = False
    final_first: bool = False
    segment: bool = False
    reactions_aside: bool = False

    @property
    def reads_streams(self) -> bool:
        """Whether text streamed after a complete message can still matter, so that it has to be kept."""
        return self.substance or self.drop_aborted or self.tail or self.segment


CANONICAL: Final = Policy(name="canonical")
"""The last message with content, else the streamed text. Equal to the rule of its origin, and the default."""

ANSWER: Final = Policy(
    name="answer",
    substance=True,
    join_pieces=True,
    drop_aborted=True,
    tail=True,
    terminal=True,
    structured_first=True,
    final_first=True,
    segment=True,
    reactions_aside=True,
)
"""What people who report lost or wrong child output ask for."""

POLICIES: Final = {policy.name: policy for policy in (CANONICAL, ANSWER)}


def policy_named(name: str) -> Policy:
    """The shipped policy of that name.

    Raises:
        UsageError: there is none; the message lists the names.
    """
    try:
        return POLICIES[name]
    except KeyError:
        raise UsageError(f"no policy named {name!r}; the shipped ones are {', '.join(sorted(POLICIES))}") from None
