"""Requests of HTTP probes and their redirects, compared with Go's net/http and net/url."""

import pytest

from kubeledger.kubelet.kube.urls import URLError, parse_url, probe_url
from kubeledger.kubelet.prober.httpget import (
    HTTPRequest,
    http_request,
    redirect_of,
    request_fault,
    user_agent,
)
from kubeledger.kubelet.prober.prober import HTTPGetAction, HTTPHeader
from tests.kubelet.prober.worlds import facts_of

NEW, OLD = facts_of("1.25.0"), facts_of("1.24.17")


def request(
    *headers: tuple[str, str], version: str = "1.36.2", scheme: str = "HTTP"
) -> HTTPRequest:
    """A probe of 10.0.0.7:8080/healthz with these headers."""
    action = HTTPGetAction(
        port=8080,
        path="/healthz",
        scheme=scheme,
        http_headers=tuple(HTTPHeader(*header) for header in headers),
    )
    return http_request(action, "10.0.0.7", 8080, facts_of(version), user_agent(version))


def head(*headers: tuple[str, str], version: str = "1.36.2") -> list[str]:
    """The lines after the request line and Host."""
    return list(request(*headers, version=version).lines[2:])


def test_what_is_sent() -> None:
    assert request().lines == (
        "GET /healthz HTTP/1.1",
        "Host: 10.0.0.7:8080",
        "User-Agent: kube-probe/1.36",
        "Accept: */*",
        "Connection: close",
    )


@pytest.mark.parametrize(
    ("version", "agent"),
    [
        ("1.28.0", "kube-probe/1.28"),
        ("v1.30.14", "kube-probe/1.30"),
        ("v1.28.5-eks-5e0fdde", "kube-probe/1.28+"),
        ("v1.27.3-gke.100", "kube-probe/1.27+"),
        ("v1.29.1+k3s2", "kube-probe/1.29"),
    ],
)
def test_user_agent(version: str, agent: str) -> None:
    assert user_agent(version) == agent


@pytest.mark.parametrize(
    ("headers", "version", "sent"),
    [
        pytest.param((), "1.19.0", ["User-Agent: kube-probe/1.19", "Connection: close"], id="1.19"),
        pytest.param((("Accept", ""), ("User-Agent", "")), "1.36.2", ["Connection: close"],
                     id="emptied"),
        pytest.param((("X-B", "1"), ("A-z", "q"), ("Connection", "keep-alive")), "1.36.2",
                     ["User-Agent: kube-probe/1.36", "A-Z: q", "Accept: */*",
                      "Connection: keep-alive", "X-B: 1", "Connection: close"],
                     id="sorted, Connection twice"),
        pytest.param((("accept", "q"), ("user-agent", "me")), "1.36.2",
                     ["User-Agent: me", "Accept: q", "Connection: close"], id="any case"),
        pytest.param((("accept", "q"),), "1.20.2",
                     ["User-Agent: kube-probe/1.20", "Accept: */*", "accept: q",
                      "Connection: close"], id="both, before names were canonical"),
        pytest.param((("Connection", "close"), ("Content-Length", "9")), "1.36.2",
                     ["User-Agent: kube-probe/1.36", "Accept: */*", "Connection: close"],
                     id="Go keeps the length to itself"),
    ],
)  # fmt: skip
def test_headers(headers: tuple[tuple[str, str], ...], version: str, sent: list[str]) -> None:
    assert head(*headers, version=version) == sent


@pytest.mark.parametrize(
    ("before", "since"),
    [("1.24.13", "1.24.14"), ("1.25.9", "1.25.10"), ("1.26.4", "1.26.5"), ("1.27.1", "1.27.2"),
     ("1.27.1", "1.28.0")],
)  # fmt: skip
def test_a_host_header_in_lower_case_was_a_second_one(before: str, since: str) -> None:
    assert request(("host", "shop.example"), version=since).host == "shop.example"
    old = request(("host", "shop.example"), version=before)
    assert old.host == "10.0.0.7:8080"
    assert "host: shop.example" in old.lines


@pytest.mark.parametrize(
    ("given", "fault"),
    [
        (request(("a b", "1")), 'net/http: invalid header field name "a b"'),
        (request(("X", "a\nb")), 'net/http: invalid header field value for "X"'),
        (request(version="1.20.2", scheme=""), 'unsupported protocol scheme ""'),
        (request(scheme=""), ""),
        (request(("X", "a\tb")), ""),
    ],
)
def test_what_go_refuses_to_send(given: HTTPRequest, fault: str) -> None:
    assert request_fault(given) == fault


@pytest.mark.parametrize(
    ("path", "url", "target"),
    [
        ("", "http://h:1", "/"),
        ("/a b", "http://h:1/a%20b", "/a%20b"),
        ("/a%20b", "http://h:1/a%20b", "/a%20b"),
        ("/%zz", "http://h:1/%25zz", "/%25zz"),
        ("x?y=1", "http://h:1/x?y=1", "/x?y=1"),
        ("/a?b c#frag", "http://h:1/a?b c#frag", "/a?b c"),
        ("/a#b c]", "http://h:1/a#b%20c%5D", "/a"),
        ("/a#b%2", "http://h:1/a%23b%252", "/a%23b%252"),
        ("http://foo.example/bar", "http://h:1/bar", "/bar"),
        ("//foo/bar", "http://h:1/bar", "/bar"),
        ("/a;b=,$&+:@", "http://h:1/a;b=,$&+:@", "/a;b=,$&+:@"),
        ("/[x]", "http://h:1/[x]", "/[x]"),
        ("/é", "http://h:1/%C3%A9", "/%C3%A9"),
        ("?q", "http://h:1?q", "/?q"),
        ("/%2F", "http://h:1/%2F", "/%2F"),
        ("/a\x7f", "http://h:1/a%7F", "/a%7F"),
        ('/\\x^`{|}<>"', "http://h:1/%5Cx%5E%60%7B%7C%7D%3C%3E%22",
         "/%5Cx%5E%60%7B%7C%7D%3C%3E%22"),
        ("*", "http://h:1/*", "/*"),
        (":x", "http://h:1/:x", "/:x"),
        ("/a?%zz", "http://h:1/a?%zz", "/a?%zz"),
        ("a:b/c", "http:b/c", "b/c"),
    ],
)  # fmt: skip
def test_paths_as_go_reads_them(path: str, url: str, target: str) -> None:
    made = probe_url("http", "h", 1, path)
    assert (str(made), made.target) == (url, target)


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("http://[::1", "missing ']' in host"),
        ("/%zz", 'invalid URL escape "%zz"'),
        ("/%a", 'invalid URL escape "%a"'),
        ("http://h:PORT/", 'invalid port ":PORT" after host'),
        ("http://a b/", 'invalid character " " in host name'),
        (":x", "missing protocol scheme"),
        ("1:x", "first path segment in URL cannot contain colon"),
    ],
)
def test_urls_that_are_none(text: str, fault: str) -> None:
    with pytest.raises(URLError) as caught:
        parse_url(text)
    assert str(caught.value) == f'parse "{text}": {fault}'


@pytest.mark.parametrize(
    ("url", "hostname", "port"),
    [
        ("http://10.0.0.7:80/", "10.0.0.7", 80),
        ("https://h/", "h", 443),
        ("http://[fd00::7]:81/", "fd00::7", 81),
        ("http://[fd00::7]/", "fd00::7", 80),
        ("ftp://h/", "h", 0),
    ],
)
def test_host_and_port(url: str, hostname: str, port: int) -> None:
    parsed = parse_url(url)
    assert (parsed.hostname, parsed.port) == (hostname, port)


@pytest.mark.parametrize(
    ("status", "location", "url"),
    [
        (301, "/next", "http://10.0.0.7:8080/next"),
        (302, "next?x#f", "http://10.0.0.7:8080/next?x#f"),
        (303, "../up", "http://10.0.0.7:8080/up"),
        (307, "https://10.0.0.7:8443/s", "https://10.0.0.7:8443/s"),
        (308, "//10.0.0.7/other-port", "http://10.0.0.7/other-port"),
        (302, "HTTP://10.0.0.7:1/Q q", "http://10.0.0.7:1/Q%20q"),
    ],
)
def test_redirects_to_the_same_host_are_followed(status: int, location: str, url: str) -> None:
    followed = redirect_of(request(), request(), status, location, 1, NEW).request
    assert followed is not None
    assert str(followed.url) == url
    assert ("Referer", "http://10.0.0.7:8080/healthz") in followed.headers


@pytest.mark.parametrize("status", [200, 300, 304, 305, 404])
def test_other_statuses_lead_nowhere(status: int) -> None:
    made = redirect_of(request(), request(), status, "/next", 1, NEW)
    assert (made.request, made.error, made.elsewhere) == (None, "", "")


def test_another_host_is_not_followed_even_after_ten_redirects() -> None:
    made = redirect_of(request(), request(), 302, "http://shop.example/", 10, NEW)
    assert (made.elsewhere, made.error) == ("http://shop.example/", "")


def test_ten_requests_are_enough() -> None:
    made = redirect_of(request(), request(), 302, "/next", 10, NEW)
    assert made.error == 'Get "/next": stopped after 10 redirects'


def test_a_location_that_is_none() -> None:
    made = redirect_of(request(), request(), 302, "/%zz", 1, NEW)
    assert made.error == (
        'Get "http://10.0.0.7:8080/healthz": failed to parse Location header "/%zz": '
        'parse "/%zz": invalid URL escape "%zz"'
    )


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_no_location(status: int) -> None:
    assert redirect_of(request(), request(), status, "", 1, NEW).error == ""
    text = f'Get "http://10.0.0.7:8080/healthz": {status} response missing Location header'
    text = "" if status >= 307 else text
    assert redirect_of(request(), request(), status, "", 1, OLD).error == text


@pytest.mark.parametrize(
    ("location", "host"),
    [("/next", "shop.example"), ("http://10.0.0.7:8080/next", "10.0.0.7:8080")],
)
def test_a_host_header_survives_relative_redirects_only(location: str, host: str) -> None:
    first = request(("Host", "shop.example"))
    followed = redirect_of(first, first, 302, location, 1, NEW).request
    assert followed is not None
    assert followed.host == host


def test_no_referer_from_https_to_http() -> None:
    first = request(scheme="HTTPS")
    followed = redirect_of(first, first, 302, "http://10.0.0.7:8080/", 1, NEW).request
    assert followed is not None
    assert [name for name, _ in followed.headers] == ["User-Agent", "Accept"]
