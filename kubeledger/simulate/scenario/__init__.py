"""Scenarios: what is to be simulated, as people write it, checked and turned into a plan."""

from __future__ import annotations

from kubeledger.simulate.scenario.load import load_scenario
from kubeledger.simulate.scenario.models import Scenario
from kubeledger.simulate.scenario.plan import to_plan
from kubeledger.simulate.scenario.problems import Problem, ScenarioError

__all__ = ["Problem", "Scenario", "ScenarioError", "load_scenario", "to_plan"]
