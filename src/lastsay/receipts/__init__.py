"""What is confirmed: submissions, native profiles, the ledger and its verdicts. Synchronous."""

from lastsay.receipts._admission import (
    FunctionResult,
    InputImage,
    InputText,
    Limits,
    Part,
    Submission,
    admit,
    check_size,
)
from lastsay.receipts._evidence import Receipt, receipt_of, substantial
from lastsay.receipts._javascript import JS_WHITESPACE, elide_middle, is_blank, js_trim, utf16_length
from lastsay.receipts._judging import (
    FileCheck,
    Judgement,
    is_rejection,
    judge,
    judge_files,
    persisted_path,
    stopped_waiting,
)
from lastsay.receipts._ledger import RECEIPT_TIMEOUT, Ledger
from lastsay.receipts._profiles import (
    CLAUDE_2_1_269,
    CLAUDE_2_1_332,
    EXACT,
    PROFILES,
    ErrorRule,
    NativeProfile,
    profile_for,
)
from lastsay.receipts._records import Called, CallRecord, Effect, ReadFiles, RefusedError, Settled, State, Stray
from lastsay.receipts._rendering import Rendering, record_of, render
from lastsay.receipts._verdicts import CONFIRMED, STRAY, Proof, Verdict

__all__ = (
    "CLAUDE_2_1_269",
    "CLAUDE_2_1_332",
    "CONFIRMED",
    "EXACT",
    "JS_WHITESPACE",
    "PROFILES",
    "RECEIPT_TIMEOUT",
    "STRAY",
    "CallRecord",
    "Called",
    "Effect",
    "ErrorRule",
    "FileCheck",
    "FunctionResult",
    "InputImage",
    "InputText",
    "Judgement",
    "Ledger",
    "Limits",
    "NativeProfile",
    "Part",
    "Proof",
    "ReadFiles",
    "Receipt",
    "RefusedError",
    "Rendering",
    "Settled",
    "State",
    "Stray",
    "Submission",
    "Verdict",
    "admit",
    "check_size",
    "elide_middle",
    "is_blank",
    "is_rejection",
    "js_trim",
    "judge",
    "judge_files",
    "persisted_path",
    "profile_for",
    "receipt_of",
    "record_of",
    "render",
    "stopped_waiting",
    "substantial",
    "utf16_length",
)
