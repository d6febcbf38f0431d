"""What kubeledger's pages have in common: one HTML file each, which runs nothing but its script."""

from __future__ import annotations

import json
from base64 import b64encode
from hashlib import sha256
from importlib.resources import files
from string import Template

_HERE = __package__ or ""


def html_page(
    template: str, *, style: str, script: str, connects: bool = False, **parts: str
) -> str:
    """A page with its Content-Security-Policy.

    Args:
        template: with places for ``policy``, ``style``, ``script`` and the other parts.
        style: the only one that browsers take.
        script: the only one that they run.
        connects: whether it may ask the server that sent it.
        **parts: text of the places; data by :func:`embedded`.
    """
    policy = [
        "default-src 'none'",
        f"script-src '{_digest(script)}'",
        f"style-src '{_digest(style)}'",
        "img-src data:",
        "connect-src 'self'" if connects else "connect-src 'none'",
        "base-uri 'none'",
        "form-action 'none'",
    ]
    return Template(template).substitute(
        policy="; ".join(policy), style=style, script=script, **parts
    )


def script_of(texts: list[str]) -> str:
    """Scripts that use one another, as one of which nothing shows outside."""
    return f'"use strict";\n(() => {{\n{"".join(texts)}}})();\n'


def static_text(name: str, package: str = _HERE) -> str:
    """A file of a package's directory ``static``."""
    return (files(package) / "static" / name).read_text(encoding="utf-8")


def _digest(text: str) -> str:
    return f"sha256-{b64encode(sha256(text.encode()).digest()).decode()}"


def embedded(value: object) -> str:
    """JSON that cannot end the element it stands in, whatever names it holds."""
    return json.dumps(value, separators=(",", ":")).replace("<", "\\u003c")
