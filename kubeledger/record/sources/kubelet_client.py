"""Asking the kubelet's own server (port 10250) over HTTPS."""

from __future__ import annotations

import http.client
import ssl
import time
from pathlib import Path
from urllib.parse import urlsplit

from kubeledger.model.errors import BadQuestionError
from kubeledger.record.sources.snapshots import CONTENT_BYTES_MAX

_SILENCE_S = 5
_WHOLE_S = 10
_PIECE_BYTES = 64 << 10
_SHOWN_BYTES = 200


class UnreachableError(Exception):
    """The kubelet does not answer at all; the text says why."""


class RefusedError(Exception):
    """The kubelet answered, but not with what was asked for; the text says why."""


class KubeletClient:
    """One kubelet, over one connection that is made when it is needed.

    The token is read for each request, the certificates of the authority for each connection: both
    are replaced while a recorder runs.

    Args:
        url: ``https://HOST[:10250]``.
        token_file: of a service account; None for a kubelet that asks for none.
        ca_file: certificates by which the kubelet's own is checked; None: the machine's.
        insecure: the kubelet's certificate is not checked.
        silence_s: how long it may be silent.

    Raises:
        BadQuestionError: no URL of HTTPS.
    """

    def __init__(
        self,
        url: str,
        *,
        token_file: Path | None = None,
        ca_file: Path | None = None,
        insecure: bool = False,
        silence_s: float = _SILENCE_S,
    ) -> None:
        parts = urlsplit(url)
        if parts.scheme != "https" or not parts.hostname or parts.path.strip("/"):
            raise BadQuestionError(
                f"not a URL of a kubelet: {url}", advice="https://HOST:10250, without a path"
            )
        self._host, self._port = parts.hostname, parts.port or 10250
        self._token_file = token_file
        self._ca_file = ca_file
        self._insecure = insecure
        self._silence_s = silence_s
        self._connection: http.client.HTTPSConnection | None = None

    def get(self, path: str) -> bytes:
        """The content at a path.

        Raises:
            UnreachableError: nobody answers, or it is not the kubelet.
            RefusedError: the answer is an error, not whole, too large or too slow.
        """
        try:
            return self._get(path)
        except BaseException:
            self.close()  # what is left of this answer is no answer to the next question
            raise

    def _get(self, path: str) -> bytes:
        headers = {"Accept": "*/*", **self._authorization()}
        connection = self._connected()
        try:
            connection.request("GET", path, headers=headers)
            response = connection.getresponse()
            data = _content(response, self._silence_s * _WHOLE_S / _SILENCE_S)
        except TimeoutError:
            raise RefusedError("no answer in time") from None
        except http.client.IncompleteRead:
            raise RefusedError("the answer ends in the middle") from None
        except (http.client.HTTPException, OSError) as error:
            raise RefusedError(f"the answer breaks off: {error or type(error).__name__}") from None
        if response.status != http.client.OK:
            shown = " ".join(data[:_SHOWN_BYTES].decode("utf-8", "replace").split())
            why = f": {shown}" if shown else ""
            raise RefusedError(f"answered {response.status} {response.reason}{why}")
        return data

    def _authorization(self) -> dict[str, str]:
        if self._token_file is None:
            return {}
        try:
            token = self._token_file.read_text(encoding="ascii").strip()
        except (OSError, ValueError) as error:
            raise UnreachableError(f"{self._token_file} cannot be read: {_why(error)}") from None
        if not token.isprintable() or not token or " " in token:
            raise UnreachableError(f"{self._token_file} holds no token")
        return {"Authorization": f"Bearer {token}"}

    def _connected(self) -> http.client.HTTPSConnection:
        if self._connection is not None:
            return self._connection
        connection = http.client.HTTPSConnection(
            self._host, self._port, timeout=self._silence_s, context=self._trust()
        )
        try:
            connection.connect()
        except ssl.SSLCertVerificationError as error:
            raise UnreachableError(
                f"its certificate is not accepted: {error.verify_message}"
            ) from None
        except TimeoutError:
            raise UnreachableError("no connection in time") from None
        except OSError as error:
            raise UnreachableError(f"no connection: {_why(error)}") from None
        self._connection = connection
        return connection

    def _trust(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        if self._insecure:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
            return context
        try:
            if self._ca_file is None:
                context.load_default_certs()
            else:
                context.load_verify_locations(self._ca_file)
        except OSError as error:
            raise UnreachableError(f"{self._ca_file} cannot be read: {_why(error)}") from None
        return context

    def close(self) -> None:
        """Close the connection; the next question makes another."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def _content(response: http.client.HTTPResponse, whole_s: float) -> bytes:
    """The body, read in pieces: an answer of which a byte comes now and then is too slow."""
    end = time.monotonic() + whole_s
    pieces: list[bytes] = []
    size = 0
    while piece := response.read1(_PIECE_BYTES):
        pieces.append(piece)
        size += len(piece)
        if size > CONTENT_BYTES_MAX:
            raise RefusedError(f"the answer is larger than {CONTENT_BYTES_MAX} bytes")
        if time.monotonic() > end:
            raise TimeoutError
    if response.length:  # ``read1`` says nothing of it
        raise http.client.IncompleteRead(b"")
    response.close()  # the connection is ready for the next question
    return b"".join(pieces)


def _why(error: OSError | ValueError) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error)
