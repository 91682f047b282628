"""Shared by all tests: where the tests themselves are importable, and a cache of their own stays out of the way."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
