"""Flight recorder, replay engine and SQL forensics lab for the kubelet's decisions."""

__version__ = "0.1.0"
