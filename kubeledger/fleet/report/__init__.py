"""The fleet's page: all nodes of a lake as rows of one HTML file, worst first."""
