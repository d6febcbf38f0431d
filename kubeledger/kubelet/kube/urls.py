"""URLs as Go's net/url reads and writes them, as far as a probe can have them.

A path of a probe's spec is any text, and so is the Location of a redirect; what is sent and
what the kubelet names in its error follow from Go's reading of it.
"""

from __future__ import annotations

import re
import string
from typing import Final
from urllib.parse import quote, unquote_to_bytes

import msgspec

from kubeledger.kubelet.kube.gotexts import quoted
from kubeledger.model.patterns import regex

_PATH_SAFE: Final = "$&+,/:;=@-_.~"
_FRAGMENT_SAFE: Final = _PATH_SAFE + "?!()*"
_ALSO_WRITTEN: Final = frozenset(string.ascii_letters + string.digits + "!'()*[]%")
"""Stand in a proper escaping, though the safe ones alone would be written."""
_CONTROL: Final = regex("[\x00-\x1f\x7f]")
_SCHEME: Final = regex(r"([A-Za-z][A-Za-z0-9+.-]*):(.*)", re.DOTALL)
_BAD_ESCAPE: Final = regex(r"%(?![0-9A-Fa-f]{2}).{0,2}", re.DOTALL)
_HOST_REFUSES: Final = regex(r"[ \\^`{|}%/?#@]")
_PORT: Final = regex(r"(?::[0-9]*)?")
DEFAULT_PORTS: Final = {"http": 80, "https": 443}


class URLError(Exception):
    """Go's text of why a URL cannot be parsed."""


class URL(msgspec.Struct, frozen=True):
    """A URL in the parts that a request needs.

    Attributes:
        scheme: in lower case; empty for none.
        host: with its port, as written.
        path: escaped.
        query: with its question mark; empty for none.
        fragment: with its hash; never sent.
        opaque: what follows a scheme without a slash; such a URL has no host.
    """

    scheme: str = ""
    host: str = ""
    path: str = ""
    query: str = ""
    fragment: str = ""
    opaque: str = ""

    def __str__(self) -> str:
        """As the kubelet writes it."""
        scheme = f"{self.scheme}:" if self.scheme else ""
        if self.opaque:
            return f"{scheme}{self.opaque}{self.query}{self.fragment}"
        slashes = f"//{self.host}" if self.host else ""
        between = "/" if self.host and self.path and not self.path.startswith("/") else ""
        return f"{scheme}{slashes}{between}{self.path}{self.query}{self.fragment}"

    @property
    def target(self) -> str:
        """What is in the request line."""
        path = self.opaque or self.path or "/"
        rooted = path if self.opaque or path.startswith("/") else f"/{path}"
        return f"{rooted}{self.query}"

    @property
    def hostname(self) -> str:
        """The host without port and brackets."""
        host, _, port = self.host.rpartition(":")
        name = self.host if "]" in port or not host else host
        return name.removeprefix("[").removesuffix("]")

    @property
    def port(self) -> int:
        """Where to connect; 0 where neither the URL nor its scheme says."""
        last = self.host.rpartition(":")[2] if ":" in self.host else ""
        return int(last) if last.isdigit() else DEFAULT_PORTS.get(self.scheme, 0)


def host_port(host: str, port: int) -> str:
    """Go's ``net.JoinHostPort``."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def probe_url(scheme: str, host: str, port: int, path: str) -> URL:
    """The URL of an HTTP probe; a path that cannot be read is taken as it is.

    Source: v1.36.2 pkg/probe/http/request.go formatURL
    """
    try:
        parsed = parse_url(path)
    except URLError:
        parsed = URL(path=_escaped(path, _PATH_SAFE))
    return msgspec.structs.replace(parsed, scheme=scheme, host=host_port(host, port))


def parse_url(text: str) -> URL:
    """Go's ``url.Parse``, without user names.

    Raises:
        URLError: with Go's text.
    """
    read, _, fragment = text.partition("#")
    try:
        parsed = _parsed(read)
        read = text
        escaped = _proper(fragment, _FRAGMENT_SAFE)
    except URLError as fault:
        raise URLError(f"parse {quoted(read)}: {fault}") from None
    return msgspec.structs.replace(parsed, fragment=f"#{escaped}" if fragment else "")


def resolve_reference(base: URL, location: str) -> URL:
    """Where a Location leads: Go's ``url.URL.Parse``.

    Raises:
        URLError: with Go's text.
    """
    to = parse_url(location)
    absolute = bool(to.scheme or to.host)
    return msgspec.structs.replace(
        to,
        scheme=to.scheme or base.scheme,
        host=to.host if absolute else base.host,
        path=_resolved(to.path, "") if absolute else _resolved(base.path, to.path),
        query=to.query if absolute or to.path or to.query else base.query,
    )


def _resolved(base: str, path: str) -> str:
    """Go's ``resolvePath``: a relative path in the place of the base's last part, without dots."""
    full = path if path.startswith("/") else base[: base.rfind("/") + 1] + path if path else base
    if not full:
        return ""
    kept: list[str] = []
    parts = full.split("/")
    for part in parts:
        if part == "..":
            kept = kept[:-1]
        elif part != ".":
            kept.append(part)
    joined = "/" + "/".join(kept) + ("/" if parts[-1] in (".", "..") else "")
    return joined[1:] if joined.startswith("//") else joined


def _parsed(text: str) -> URL:
    if _CONTROL.search(text):
        raise URLError("net/url: invalid control character in URL")
    scheme, rest = _cut_scheme(text)
    path, question, query = rest.partition("?")
    query = question + query
    if not path.startswith("/"):
        if scheme:
            return URL(scheme=scheme, opaque=path, query=query)
        if ":" in path.partition("/")[0]:
            raise URLError("first path segment in URL cannot contain colon")
    host = ""
    if path.startswith("//") and (scheme or not path.startswith("///")):
        authority, slash, rest = path[2:].partition("/")
        host = _host(authority.rpartition("@")[2])
        path = slash + rest
    return URL(scheme=scheme, host=host, path=_proper(path, _PATH_SAFE), query=query)


def _cut_scheme(text: str) -> tuple[str, str]:
    if text.startswith(":"):
        raise URLError("missing protocol scheme")
    match = _SCHEME.fullmatch(text)
    return (match[1].lower(), match[2]) if match else ("", text)


def _host(host: str) -> str:
    if host.startswith("["):
        inside, bracket, after = host.rpartition("]")
        if not bracket:
            raise URLError("missing ']' in host")
    else:
        inside, colon, after = host.rpartition(":")
        inside, after = (inside, colon + after) if colon else (host, "")
    if not _PORT.fullmatch(after):
        raise URLError(f"invalid port {quoted(after)} after host")
    refused = _HOST_REFUSES.search(inside)
    if refused and not host.startswith("["):
        raise URLError(f"invalid character {quoted(refused[0])} in host name")
    return host


def _proper(text: str, safe: str) -> str:
    """An escaped path or fragment: as written where that is a proper escaping, else again."""
    bad = _BAD_ESCAPE.search(text)
    if bad:
        raise URLError(f"invalid URL escape {quoted(bad[0])}")
    if set(text) <= _ALSO_WRITTEN | set(safe):
        return text
    return _escaped(unquote_to_bytes(text), safe)


def _escaped(text: str | bytes, safe: str) -> str:
    data = text.encode("utf-8", "surrogateescape") if isinstance(text, str) else text
    return quote(data, safe=safe)
