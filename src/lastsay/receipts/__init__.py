"""What is confirmed: submissions, native profiles, the ledger and its verdicts. Synchronous."""
