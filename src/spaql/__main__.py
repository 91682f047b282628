"""`python -m spaql`."""

from spaql.cli import main

raise SystemExit(main())
