"""Tuning: find good parameters of an algorithm for some problems, and say honestly how good they are.

search      what a study file asks for: ranges, and how much to try
racing      when a trial is clearly behind the best
asking      Optuna: which parameters to try next, its file, which parameters matter
outcome     what came out, as numbers and in words
performing  do it
telling     tables and charts of an outcome
page        the same as files
"""

from spaql.studies.tune.outcome import Outcome, Trial
from spaql.studies.tune.search import Search

__all__ = ["Outcome", "Search", "Trial"]
