"""Python imports this module at its start where its folder is on PYTHONPATH: see the fixture tiny_plans_of_children."""

from planning_for_tests import tiny_plans

plans = tiny_plans()
plans.__enter__()
