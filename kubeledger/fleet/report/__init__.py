"""The fleet's page: all nodes of a lake as rows of one HTML file, worst first."""

from __future__ import annotations

from kubeledger.fleet.report.collect import FleetFacts, collect
from kubeledger.fleet.report.page import fleet_page, node_page, page_name

__all__ = ["FleetFacts", "collect", "fleet_page", "node_page", "page_name"]
