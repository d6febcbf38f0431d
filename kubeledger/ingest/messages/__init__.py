"""The kubelet's messages: tables with one row each, one module a subsystem, and their values read.

The rows are made by ``klog.rows``; ``catalogue`` has them all and routes lines by them.
"""
