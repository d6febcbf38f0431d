"""Pseudonyms: which names are replaced, always by the same one, which only a key undoes.

A pseudonym is a keyed BLAKE2b of the name, in the form of what it replaces (a UUID stays a
UUID, a long hexadecimal number one of its length), so that what is built of names is still built
of them: a static pod is still called after its node, a cgroup after its pod.
"""

from __future__ import annotations

import hashlib
import re
from typing import Any

from kubeledger.analyze.redaction.forms import is_qualified, is_resource, plain_words, words

WELL_KNOWN = frozenset(
    {
        "", "default", "kube-system", "kube-public", "kube-node-lease", "localhost", "POD", "linux",
        "windows",
    }
)  # fmt: skip
"""Names that every cluster has; they reveal nothing."""

_UUID = re.compile(
    r"[0-9a-f]{8}(?P<dash>[-_])[0-9a-f]{4}(?P=dash)[0-9a-f]{4}(?P=dash)[0-9a-f]{4}(?P=dash)"
    r"[0-9a-f]{12}"
)
_HEX = re.compile(r"[0-9a-f]{32,}")
_IDENTITIES = re.compile(
    # "pod" ends in a hexadecimal digit; in the name of a cgroup its UID follows directly
    rf"(?:(?<=pod)|(?<![0-9A-Za-z]))(?:{_UUID.pattern}|{_HEX.pattern})(?![0-9A-Za-z])"
    r"|(?<![\d.])\d{1,3}(?:\.\d{1,3}){3}(?![\d.])"
    r"|(?<![\w:])(?:[0-9a-fA-F]{1,4}:){7}[0-9a-fA-F]{1,4}(?![\w:])"
    r"|(?<![\w:])(?:[0-9a-fA-F]{1,4}:)+:(?:[0-9a-fA-F]{1,4}(?::[0-9a-fA-F]{1,4})*)?(?![\w:])"
    r"|(?<![\w:])::[0-9a-fA-F]{1,4}(?::[0-9a-fA-F]{1,4})*(?![\w:])"
)
_TOKEN = re.compile(r"\w(?:[\w.-]*\w)?")
_FOREIGN = re.compile(r"[^\w \n\t'\"()\[\]{}<>:;,.=/_+*|%&@\\-]+|[^\x00-\x7f]+")
"""Marks that no kubelet puts between its words."""
_PATH = r"(?<![\w.])/?[\w.@+-]+(?:/[\w.@+:-]*[\w@+])+"
_AMOUNT = r"[0-9]+(?:\.[0-9]+)?"
_NUMBERS = (
    r"(?<![\w.-])(?:\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:?\d\d)?"
    rf"|(?:{_AMOUNT}(?:ns|us|µs|ms|s|m|h))+|-?{_AMOUNT}(?:[eE][+-]?\d+)?(?:[numkKMGTPE]i?B?|%)?"
    r"|0x[0-9a-f]{1,4})(?![\w-]|\.\w)"
)
"""Times, durations, amounts."""
_NUMBER = re.compile(r"0|-?[1-9][0-9]{0,17}")
_PLAIN_TERM = re.compile(_TOKEN.pattern)
_CGROUP_NAME = re.compile(rf"(?:pod)?{_UUID.pattern}|[^-.:]+")
_CGROUP_WORDS = words(
    """
    besteffort burstable containerd cri crio docker init kubelet kubepods libpod pod podruntime
    runtime scope service slice system user
    """
)
"""Words in the names of cgroups, around the IDs of pods and containers."""


def key_of_passphrase(passphrase: str) -> bytes:
    """A key of 32 bytes; slow on purpose, because passphrases are guessed."""
    salt = b"kubeledger redaction 1"
    return hashlib.scrypt(passphrase.encode(), salt=salt, n=1 << 14, r=8, p=1, dklen=32)


class Pseudonyms:
    """Replaces names, alone and inside texts.

    Attributes:
        terms: names that are replaced where they occur in a text.
        kept: words that never are.
    """

    def __init__(self, key: bytes) -> None:
        self._key = key
        self._nodes: list[str] = []
        self._known: dict[str, str] = {}
        self._ordered: dict[str, set[str]] = {}
        self._complex: re.Pattern[str] | None = None
        self._resources: set[str] = set()
        self._numbers: dict[str, set[int]] = {}
        self._compared: set[str] = set()
        self.terms: set[str] = set()
        self.kept: set[str] = set()

    @property
    def key_check(self) -> str:
        """Equal for exports with the same key, and reveals nothing about it."""
        return self._digest("key check", 16)

    def add_node(self, name: str) -> None:
        """Static pods are called after their node: NAME-NODE."""
        if name not in self._nodes:
            self._nodes.append(name)
        self.add(name)

    def add(self, term: str) -> None:
        """Replace this name in texts from now on."""
        if term not in WELL_KNOWN and term not in self.kept:
            self.terms.add(term)
            self._complex = None

    def add_resource(self, name: str) -> None:
        """A resource that somebody named keeps the form of such a name, by which it is judged."""
        if is_qualified(name) and not is_resource(name):
            self._resources.add(name)
            self.add(name)

    def add_ordered(self, what: str, name: str) -> None:
        """IDs of images, and of devices, keep their order: ties are broken by it."""
        self._ordered.setdefault(what, set()).add(name)

    def add_number(self, label: str, text: str, *, is_compared: bool = False) -> None:
        """A value of a label; of one whose values are compared as numbers the order is kept."""
        if is_compared:
            self._compared.add(label)
        if _NUMBER.fullmatch(text):
            self._numbers.setdefault(label, set()).add(int(text))

    def settle(self) -> None:
        """All names are known now."""
        for names in map(sorted, self._ordered.values()):
            made = sorted(map(self._made, names))
            self._known.update(zip(names, made, strict=True))
        self.terms -= self.kept

    def name(self, text: str) -> str:
        if text in WELL_KNOWN or text in self.kept or is_resource(text):
            return text
        found = self._known.get(text)
        if found is None:
            found = self._known[text] = self._made(text)
        return found

    def compared(self, label: str, text: str) -> str:
        """The pseudonym of a label's value: its place among them where it counts as a number."""
        if label not in self._compared or not _NUMBER.fullmatch(text):
            return self.name(text)
        return str(1 + sorted(self._numbers[label]).index(int(text)))

    def text(self, text: str) -> str:
        """A text in which all is replaced but the words that a kubelet uses: numbers, too."""
        parts, at = [], 0
        for match in self._pattern().finditer(text):
            parts += [self._words(text[at : match.start()]), self._piece(match)]
            at = match.end()
        return "".join([*parts, self._words(text[at:])])

    def _words(self, text: str) -> str:
        """What stands between names: words, and the marks around them."""
        parts, at = [], 0
        for match in _TOKEN.finditer(text):
            marks = _FOREIGN.sub("?", text[at : match.start()])
            parts += [marks, self._token(match[0])]
            at = match.end()
        return "".join([*parts, _FOREIGN.sub("?", text[at:])])

    def cgroup(self, path: str) -> str:
        """A path of cgroups, in the form of either driver."""
        return "/".join(map(self._cgroup_part, path.split("/")))

    def _cgroup_part(self, part: str) -> str:
        """Systemd writes several names into one, with dashes between them."""
        if part.endswith((".slice", ".scope", ".service")) or ":" in part:
            return _CGROUP_NAME.sub(
                lambda name: self._cgroup_name(name[0]).replace("r-", "r"), part
            )
        return self._cgroup_name(part)

    def _cgroup_name(self, name: str) -> str:
        if name in _CGROUP_WORDS:
            return name
        pod = "pod" if name.startswith("pod") else ""
        return pod + self.name(name.removeprefix(pod))

    def _piece(self, match: re.Match[str]) -> str:
        piece = match[0]
        if self._is_plain(piece):
            return piece
        if match.lastgroup != "path" or piece in self.terms:
            return self.name(piece)
        parts = piece.split("/")
        if not all(self._is_reported(part) for part in parts):
            return self.name(piece)
        return "/".join(map(self.text, parts))

    def _is_reported(self, part: str) -> bool:
        """A part of a path that is known to be a name, or to be none."""
        return (
            not part
            or part in self.terms
            or part in WELL_KNOWN
            or part in _CGROUP_WORDS
            or _IDENTITIES.search(part) is not None
        )

    def _is_plain(self, word: str) -> bool:
        """A word of the kubelet's or of every cluster, and no name that has a pseudonym."""
        return word not in self.terms and (
            word in plain_words() or word in WELL_KNOWN or word in self.kept or is_resource(word)
        )

    def _token(self, token: str) -> str:
        """Words that somebody joined are no words of the kubelet's: ``a_pass_phrase``."""
        if self._is_plain(token):
            return token
        if token in self.terms:
            return self.name(token)
        parts = token.split("_")
        return "_".join(map(self.name, parts)) if len(parts) > 1 else self.name(token)

    def _pattern(self) -> re.Pattern[str]:
        """What is more than a word: names of several, IDs, numbers with their units, paths."""
        if self._complex is None:
            found = [term for term in self.terms if not _PLAIN_TERM.fullmatch(term)]
            longest_first = sorted(found, key=len, reverse=True)
            names = "|".join(map(re.escape, longest_first)) or r"(?!)"
            self._complex = re.compile(
                rf"(?P<term>{names})|(?P<id>{_IDENTITIES.pattern})"
                rf"|(?P<number>{_NUMBERS})|(?P<path>{_PATH})"
            )
        return self._complex

    def _made(self, text: str) -> str:
        if _UUID.fullmatch(text):
            digits = self._digest(text.replace("_", "-"), 16)
            parts = digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]
            return text[8].join(parts)
        if _HEX.fullmatch(text):
            return self._digest(text, (len(text) + 1) // 2 if len(text) <= 128 else 64)[: len(text)]
        if text in self._resources:
            domain, _, name = text.partition("/")
            return f"r-{self._digest(domain, 6)}.example/r-{self._digest(name, 6)}"
        for node in self._nodes:
            base = text.removesuffix(f"-{node}")
            if base and base != text:
                return f"{self.name(base)}-{self.name(node)}"
        return f"r-{self._digest(text, 6)}"

    def _digest(self, text: str, size: int) -> str:
        data = text.encode(errors="surrogatepass")
        return hashlib.blake2b(data, key=self._key, digest_size=size).hexdigest()


# Which names there are: they are replaced wherever they stand, in texts, too.

_NAMES = words(
    "namespace pod container victim_namespace victim_pod preemptor_namespace preemptor_pod"
    " hostname subdomain serviceAccountName serviceAccount image about"
)
"""Fields whose values are names that may also stand in texts."""

IMAGE_IDS = words("image_id imageID")
IMAGE_ID = re.compile(r"(?s)(?:(?P<name>.*)@)?(?P<form>sha256:|)(?P<digest>[0-9a-f]{64})")
KEYED_BY_USERS = words("labels annotations nodeSelector matchLabels")
MAPS_BY_RESOURCE = words("requests limits allocatedResources overhead resources")
_OWN_MAPS_BY_RESOURCE = words("capacity allocatable hints memory registered")
_DEVICES = words("device_ids numa registered")
_RESOURCES = words("resource reclaimed type resourceName")

_COMPARED = words("Gt Lt")
"""Operators by which a label's value counts as a number."""


def collect(value: Any, pseudonyms: Pseudonyms, key: str = "") -> None:  # noqa: ANN401 # any JSON
    """Note the names in a body.

    Args:
        key: the field that the value is of.
    """
    if isinstance(value, dict):
        _collect_labels(value, pseudonyms, key)
        if key not in KEYED_BY_USERS:
            _collect_fields(value, pseudonyms, key)
    elif isinstance(value, list | tuple):
        for inner in value:
            collect(inner, pseudonyms, key)
    elif isinstance(value, str):
        _collect_name(value, pseudonyms, key)


def _collect_fields(value: dict[str, Any], pseudonyms: Pseudonyms, key: str) -> None:
    for name, inner in value.items():
        if key == "assignments":
            pseudonyms.add(name)
        if key in MAPS_BY_RESOURCE or key in _OWN_MAPS_BY_RESOURCE:
            pseudonyms.add_resource(name)
        collect(inner, pseudonyms, key if key in _DEVICES else name)


def _collect_labels(value: dict[str, Any], pseudonyms: Pseudonyms, key: str) -> None:
    """Values of labels that may be compared as numbers, and keys by which they are."""
    if key in KEYED_BY_USERS:
        for label, text in value.items():
            pseudonyms.add_number(label, str(text))
        return
    by, values = value.get("key"), value.get("values")
    if isinstance(by, str) and isinstance(values, list):
        for text in values:
            pseudonyms.add_number(by, str(text), is_compared=value.get("operator") in _COMPARED)


def _collect_name(text: str, pseudonyms: Pseudonyms, key: str) -> None:
    if key in IMAGE_IDS:
        image = IMAGE_ID.fullmatch(text)
        pseudonyms.add_ordered(*(("images", image["digest"]) if image else ("names", text)))
    elif key in _DEVICES:
        pseudonyms.add_ordered("devices", text)
    elif key in _RESOURCES:
        pseudonyms.add_resource(text)
    elif key == "nodeName":
        pseudonyms.add_node(text)
    elif key in _NAMES or (key == "name" and not is_resource(text)):
        pseudonyms.add(text)
