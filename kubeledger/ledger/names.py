"""Names on disk: node names as safe directory names, segments named by their first record."""

from __future__ import annotations

import hashlib
import re
from urllib.parse import unquote

from kubeledger.model.errors import BadInputError

MANIFEST = "ledger.json"
NODES = "nodes"
SEGMENTS = "segments"
SNAPSHOTS = "snapshots"
SUBJECTS = "subjects"
NAMES = "names"
VERDICTS = "verdicts"
CARRIED = "carried"
DERIVED = (SUBJECTS, NAMES, VERDICTS, CARRIED)
"""Directories of what is derived from records, beside their snapshots."""
SEGMENT_SUFFIX = ".jsonl"
SEALED_SUFFIX = ".jsonl.zst"
TEMPORARY_SUFFIX = ".tmp"

_DIRECTORY_LENGTH_MAX = 200  # file systems take 255 bytes
_HASHED = "%~"
_SAFE = re.compile(r"[a-z0-9_-]")
_SEGMENT = re.compile(r"(\d{20})(?:\.jsonl|\.jsonl\.zst)")


def node_directory(node: str) -> str:
    """Directory name of a node: lower-case letters, digits, ``_``, ``-`` and inner dots stay.

    All else is percent-encoded byte by byte (upper case too: some file systems do not show
    ``A`` from ``a``), so no name leaves its place in the ledger. A name too long for a file
    system keeps its start and ends in a digest.

    Raises:
        BadInputError: an empty name, or one that is not Unicode text.
    """
    if not node:
        raise BadInputError("a node needs a name", advice="give one with --node")
    try:
        escaped = "".join(_escape(character, index) for index, character in enumerate(node))
        digest = hashlib.blake2b(node.encode(), digest_size=16).hexdigest()
    except UnicodeEncodeError:
        raise BadInputError(f"not a node name: {node!r}") from None
    if len(escaped) <= _DIRECTORY_LENGTH_MAX:
        return escaped
    return f"{escaped[:120]}{_HASHED}{digest}"


def _escape(character: str, index: int) -> str:
    if _SAFE.fullmatch(character) or (character == "." and index > 0):
        return character
    return "".join(f"%{byte:02X}" for byte in character.encode())


def node_name(directory: str) -> str | None:
    """The node of a directory name; None when the name has only a digest or is not ours."""
    if _HASHED in directory:
        return None
    name = unquote(directory, errors="surrogateescape")
    try:
        return name if node_directory(name) == directory else None
    except BadInputError:
        return None


def segment_file(first_seq: int, *, sealed: bool = False) -> str:
    """File name of the segment that begins with this record."""
    return f"{first_seq:020d}{SEALED_SUFFIX if sealed else SEGMENT_SUFFIX}"


def segment_first_seq(name: str) -> int | None:
    """First record of a segment by its file name; None when it is no segment."""
    match = _SEGMENT.fullmatch(name)
    return int(match[1]) if match else None
