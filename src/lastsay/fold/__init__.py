"""What is decided: one fold, its policies, and the outcome. Synchronous, total, no clock."""

from lastsay.fold._evidence import INCOMPLETE
from lastsay.fold._outcome import DIAGNOSTIC_LIMIT, NoneReason, Outcome, Unselected, digest_of, limited_diagnostic
from lastsay.fold._output import OutputFold, final_output
from lastsay.fold._policy import ANSWER, CANONICAL, POLICIES, Policy, policy_named
from lastsay.fold._run import RunFold
from lastsay.fold._select import Candidate, Selection, Source
from lastsay.fold._tally import Counts

__all__ = (
    "ANSWER",
    "CANONICAL",
    "DIAGNOSTIC_LIMIT",
    "INCOMPLETE",
    "POLICIES",
    "Candidate",
    "Counts",
    "NoneReason",
    "Outcome",
    "OutputFold",
    "Policy",
    "RunFold",
    "Selection",
    "Source",
    "Unselected",
    "digest_of",
    "final_output",
    "limited_diagnostic",
    "policy_named",
)
