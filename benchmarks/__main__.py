"""``python -m benchmarks``: the table of goals; see `benchmarks.run`."""

from benchmarks.run import main

raise SystemExit(main())
