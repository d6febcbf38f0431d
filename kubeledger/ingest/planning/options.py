"""What a user may say about sources that the program cannot find out, or finds out wrong."""

from __future__ import annotations

import msgspec

from kubeledger.ingest.sources.detect import FORMATS
from kubeledger.kubelet.profile.facts import is_version
from kubeledger.model.errors import BadQuestionError

__all__ = ["YEAR_MAX", "YEAR_MIN", "ImportOptions"]

YEAR_MIN, YEAR_MAX = 2014, 2200
"""Of a kubelet's log: the first kubelet is of 2014; later years leave room for what goes on."""

NODE_LENGTH_MAX = 253
"""Of a node's name, a DNS subdomain."""


class ImportOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Overrides of detection; None: find out.

    Attributes:
        node: name of the node all sources are from.
        kubelet_version: ``1.36.2``; one whose rules are not known is recorded as well.
        year: year of the first klog line.
        format: of every file that is named, one of ``FORMATS``; of a directory or archive,
            the files that are of this format, and no others.
    """

    node: str | None = None
    kubelet_version: str | None = None
    year: int | None = None
    format: str | None = None

    def __post_init__(self) -> None:
        """Refuse values that mean nothing.

        Raises:
            BadQuestionError: naming the option.
        """
        if self.format is not None and self.format not in FORMATS:
            raise BadQuestionError(
                f"unknown format {self.format!r}", advice=f"one of {', '.join(FORMATS)}"
            )
        if self.year is not None and not YEAR_MIN <= self.year <= YEAR_MAX:
            raise BadQuestionError(
                f"no year of a kubelet's log: {self.year}",
                advice=f"one of {YEAR_MIN} to {YEAR_MAX}",
            )
        if self.kubelet_version is not None and not is_version(self.kubelet_version):
            raise BadQuestionError(
                f"no version of a kubelet: {self.kubelet_version!r}",
                advice="write it as `kubelet --version` does, e.g. 1.30.14",
            )
        if self.node is not None and not self.node.strip():
            raise BadQuestionError("the node name is empty")
        if self.node is not None and (
            len(self.node) > NODE_LENGTH_MAX or not self.node.isprintable()
        ):
            raise BadQuestionError(
                f"no name of a node: {self.node[:40]!r}",
                advice=f"at most {NODE_LENGTH_MAX} letters that can be printed",
            )
