"""Sizes of what a PEM key file holds: DER read just far enough (X.690). Pure."""

import base64
import binascii
import re

_INTEGER, _BIT_STRING, _OCTET_STRING, _CONSTRUCTED = 0x02, 0x03, 0x04, 0x20


def pem_body(text: str) -> bytes:
    """The DER in the first PEM block; empty where there is none."""
    match = re.search(r"-----BEGIN [^-]+-----\s+(.*?)-----END", text, re.DOTALL)
    try:
        return base64.b64decode(match[1]) if match else b""
    except binascii.Error:
        return b""


def content_sizes(der: bytes) -> frozenset[int]:
    """Sizes in bytes of all octet strings, bit strings and integers (without sign byte), however deep they lie."""
    sizes: set[int] = set()
    for tag, content in _elements(der) or []:
        if tag & _CONSTRUCTED:
            sizes |= content_sizes(content)
        elif tag == _INTEGER:
            sizes.add(len(content.lstrip(b"\0")))
        elif tag in (_OCTET_STRING, _BIT_STRING):
            payload = content[1:] if tag == _BIT_STRING else content
            sizes |= {len(payload)} | content_sizes(payload)
        elif tag & 0xC0 == 0x80:
            sizes.add(len(content))
    return frozenset(sizes)


def _elements(data: bytes) -> list[tuple[int, bytes]] | None:
    """Tag and content of each element; None where the bytes are not DER from end to end."""
    elements: list[tuple[int, bytes]] = []
    position = 0
    while position < len(data):
        header = _header(data, position)
        if header is None or header[1] > len(data):
            return None
        start, end = header
        elements.append((data[position], data[start:end]))
        position = end
    return elements


def _header(data: bytes, position: int) -> tuple[int, int] | None:
    """Where the content of the element at `position` starts and ends."""
    if position + 2 > len(data):
        return None
    length, start = data[position + 1], position + 2
    if length & 0x80:
        count = length & 0x7F
        if not 1 <= count <= 4 or start + count > len(data):
            return None
        length, start = int.from_bytes(data[start : start + count], "big"), start + count
    return start, start + length
