"""`python -m spaql.cli`."""

from spaql.cli import main

raise SystemExit(main())
