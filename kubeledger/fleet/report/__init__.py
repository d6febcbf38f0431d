"""The fleet's page: all nodes of a lake as rows of one HTML file, worst first."""

from __future__ import annotations

from kubeledger.fleet.report.collect import FleetFacts, collect
from kubeledger.fleet.report.node_page import node_page, page_name
from kubeledger.fleet.report.page import fleet_page

__all__ = ["FleetFacts", "collect", "fleet_page", "node_page", "page_name"]
