"""The HTTP request of a probe, byte by byte, and where its redirects lead."""

from __future__ import annotations

import re
from typing import Final

import msgspec

from kubeledger.kubelet.kube.gotexts import quoted
from kubeledger.kubelet.kube.urls import URL, URLError, probe_url, resolve_reference
from kubeledger.kubelet.prober.prober import HTTPGetAction, get_failed
from kubeledger.kubelet.profile.prober import ProberFacts

REDIRECTS_MAX: Final = 10
_REDIRECTS: Final = (301, 302, 303, 307, 308)
_VERSION: Final = re.compile(r"v?([0-9]+)\.([0-9]+)(?:\.[0-9]+)?(-[^+]*)?(?:\+.*)?")
_TOKEN: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
BAD_VALUE: Final = re.compile("[\x00-\x08\x0a-\x1f\x7f]")
"""What no value of a header may hold."""
_OWN: Final = frozenset({"Host", "User-Agent", "Content-Length", "Transfer-Encoding", "Trailer"})
_HTTP_1: Final = frozenset({"Connection", "Proxy-Connection", "Upgrade", "Keep-Alive"})

Headers = tuple[tuple[str, str], ...]


class HTTPRequest(msgspec.Struct, frozen=True):
    """A request.

    Attributes:
        url: whom it goes to, unless an address is given.
        host: of the Host header; the URL's where the probe sets none.
        headers: the probe's, names as they are sent, in their order.
    """

    url: URL
    host: str
    headers: Headers

    @property
    def lines(self) -> tuple[str, ...]:
        """The head as HTTP/1.1 has it: request line, Host, User-Agent, others by name."""
        agents = [value for name, value in self.headers if name == "User-Agent"][:1]
        others = sorted((h for h in self.headers if h[0] not in _OWN), key=lambda h: h[0])
        closes = any(
            name == "Connection" and "close" in value.lower().replace(" ", "").split(",")
            for name, value in others
        )
        return (
            f"GET {self.url.target} HTTP/1.1",
            f"Host: {self.host}",
            *(f"User-Agent: {agent}" for agent in agents if agent),
            *(f"{name}: {value}" for name, value in others),
            *(() if closes else ("Connection: close",)),
        )

    @property
    def fields(self) -> Headers:
        """The head as HTTP/2 has it; Go gives headers no order, here they are sorted."""
        agents = [header for header in self.headers if header[0] == "User-Agent"][:1]
        others = sorted(h for h in self.headers if h[0] not in _OWN and h[0] not in _HTTP_1)
        return (
            (":authority", self.host),
            (":method", "GET"),
            (":path", self.url.target),
            (":scheme", self.url.scheme),
            *((name.lower(), value) for name, value in (*agents, *others)),
        )


class Redirect(msgspec.Struct, frozen=True):
    """Where a reply leads: to a request, to an error, or nowhere.

    Attributes:
        request: the next; None when the reply is the last.
        error: text of the error in which the probe ends instead.
        elsewhere: the URL that is not followed, because its host is another one.
    """

    request: HTTPRequest | None = None
    error: str = ""
    elsewhere: str = ""


def user_agent(version_text: str) -> str:
    """The User-Agent of a kubelet: ``kube-probe/1.28``, of a vendor's ``kube-probe/1.28+``.

    Source: v1.36.2 pkg/probe/http/request.go userAgent; hack/lib/version.sh
    Differs: the minor version is derived from the whole one, as Kubernetes' build does it.
    """
    match = _VERSION.fullmatch(version_text)
    assert match is not None, version_text
    return f"kube-probe/{match[1]}.{match[2]}{'+' if match[3] else ''}"


def http_request(
    action: HTTPGetAction, host: str, port: int, facts: ProberFacts, agent: str
) -> HTTPRequest:
    """The first request of a probe.

    Args:
        host: of the action, else the pod's IP.
        agent: of ``user_agent``.

    Source: v1.36.2 pkg/probe/http/request.go NewRequestForHTTPGetAction, newProbeRequest;
        v1.20.2 pkg/probe/http/http.go DoHTTPProbe
    """
    scheme = action.scheme.lower() or ("http" if facts.scheme_defaults_to_http else "")
    url = probe_url(scheme, host, port, action.path)
    given = [
        (_canonical(h.name) if facts.canonical_header_names else h.name, h.value)
        for h in action.http_headers or ()
    ]
    names = {name for name, _ in given}
    if "User-Agent" not in names:
        given.append(("User-Agent", agent))
    if facts.accept_header:
        if "Accept" not in names:
            given.append(("Accept", "*/*"))
        elif _first(given, "Accept") == "":
            given = [header for header in given if header[0] != "Accept"]
    return HTTPRequest(url, _first(given, "Host") or url.host, tuple(given))


def request_fault(request: HTTPRequest) -> str:
    """Why Go sends nothing of a request; empty for none."""
    if not request.url.host or request.url.opaque:
        return "http: no Host in request URL"
    for name, value in request.headers:
        if not _TOKEN.fullmatch(name):
            return f"net/http: invalid header field name {quoted(name)}"
        if BAD_VALUE.search(value):
            return f"net/http: invalid header field value for {quoted(name)}"
    if request.url.scheme not in ("http", "https"):
        return f"unsupported protocol scheme {quoted(request.url.scheme)}"
    return ""


def redirect_of(
    first: HTTPRequest,
    last: HTTPRequest,
    status: int,
    location: str,
    requests: int,
    facts: ProberFacts,
) -> Redirect:
    """What follows from a reply.

    Args:
        first: the probe's first request, whose headers are sent again.
        location: its Location header; empty for none.
        requests: made so far.

    Source: v1.36.2 pkg/probe/http/http.go RedirectChecker; Go 1.25 net/http Client.do
    """
    if status not in _REDIRECTS:
        return Redirect()
    if not location:
        if facts.redirect_without_location_warns or status in (307, 308):
            return Redirect()
        return Redirect(error=get_failed(last.url, f"{status} response missing Location header"))
    try:
        url = resolve_reference(last.url, location)
    except URLError as fault:
        text = f"failed to parse Location header {quoted(location)}: {fault}"
        return Redirect(error=get_failed(last.url, text))
    if url.hostname != first.url.hostname:
        return Redirect(elsewhere=str(url))
    if requests >= REDIRECTS_MAX:
        return Redirect(error=f"Get {quoted(location)}: stopped after {REDIRECTS_MAX} redirects")
    relative = "://" not in location.partition("?")[0] and not location.startswith("//")
    keeps_host = relative and last.host != last.url.host
    headers = [h for h in first.headers if h[0] != "Referer"]
    if not (last.url.scheme == "https" and url.scheme == "http"):
        headers.append(("Referer", _first(first.headers, "Referer") or str(last.url)))
    return Redirect(HTTPRequest(url, last.host if keeps_host else url.host, tuple(headers)))


def _first(headers: list[tuple[str, str]] | Headers, name: str) -> str:
    return next((value for each, value in headers if each == name), "")


def _canonical(name: str) -> str:
    """Go's ``http.CanonicalHeaderKey``: names that are none are left alone."""
    if not _TOKEN.fullmatch(name):
        return name
    return "-".join(part[:1].upper() + part[1:].lower() for part in name.split("-"))
