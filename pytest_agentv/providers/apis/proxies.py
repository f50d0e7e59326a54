"""Finds the proxy and the certificates for a URL in the environment, and the safe part of a URL."""

import ipaddress
import re
from collections.abc import Mapping
from typing import Final
from urllib.parse import urlsplit

CERTIFICATE_VARIABLES: Final = ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")

_ENTRY: Final = re.compile(r"\[?(?P<host>[^\[\]]*?)\]?(:(?P<port>\d+))?")
"""A host of `NO_PROXY`, perhaps with a port. An IPv6 address then has brackets."""


def find_proxy(url: str, environment: Mapping[str, str]) -> str | None:
    """Return the proxy for a URL from `HTTPS_PROXY`, `HTTP_PROXY`, `ALL_PROXY` and `NO_PROXY`, in any case."""
    parts = urlsplit(url)
    variables = {
        name.lower(): value.strip() for name, value in environment.items() if value and name.lower().endswith("_proxy")
    }
    proxy = variables.get(f"{parts.scheme}_proxy") or variables.get("all_proxy")
    if not proxy:
        return None
    host, port = (parts.hostname or "").rstrip("."), parts.port or {"http": 80, "https": 443}.get(parts.scheme)
    if any(
        _is_meant(entry.strip().lower(), host, port) for entry in re.split(r"[,\s]+", variables.get("no_proxy", ""))
    ):
        return None
    return proxy if "://" in proxy else f"http://{proxy}"


def shown_url(url: str) -> str:
    """Return a URL without its login and its query, which may be secrets. The URL may be incomplete."""
    return re.sub(r"(?<=//).*@", "", url, flags=re.DOTALL).partition("?")[0]


def certificate_variable(environment: Mapping[str, str]) -> str | None:
    """Return the variable that names the trusted certificates; None: those of the system."""
    return next((name for name in CERTIFICATE_VARIABLES if environment.get(name)), None)


def is_loopback(url: str) -> bool:
    """Whether a URL is of a server on this machine. Some environments have a proxy even for these."""
    host = urlsplit(url).hostname or ""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _is_meant(entry: str, host: str, port: int | None) -> bool:
    """Whether an entry of `NO_PROXY` matches a host: its name or a parent domain, its address, or its network."""
    if entry in ("", "*"):
        return entry == "*"
    if "/" in entry:
        return _is_in(entry, host)
    found = None if entry.count(":") > 1 and "[" not in entry else _ENTRY.fullmatch(entry)
    if found is not None and found["port"] and int(found["port"]) != port:
        return False
    name = (entry if found is None else found["host"]).removeprefix("*").lstrip(".")
    return bool(name) and (host == name or host.endswith(f".{name}"))


def _is_in(network: str, host: str) -> bool:
    try:
        return ipaddress.ip_address(host) in ipaddress.ip_network(network, strict=False)
    except ValueError:  # the host is a name, or the entry is not a network
        return False
