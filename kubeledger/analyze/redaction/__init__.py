"""Records that can be shown to others, and still be verified."""

from __future__ import annotations

from kubeledger.analyze.redaction.pseudonyms import key_of_passphrase
from kubeledger.analyze.redaction.redaction import redacted

__all__ = ["key_of_passphrase", "redacted"]
