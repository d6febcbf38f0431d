"""Audit: is all as it was written, and does what is recorded fit together?"""

from __future__ import annotations

from kubeledger.analyze.audit.contents import Contents
from kubeledger.analyze.audit.sources import SourcesAudit, audit_sources

__all__ = ["Contents", "SourcesAudit", "audit_sources"]
