"""Passwords, and the lines by which mosquitto knows them."""

import base64
import hashlib
import secrets
from collections.abc import Iterable

ITERATIONS = 101
"""mosquitto's own default. The passwords are random, 256 bits: there is nothing to guess that iterations would slow."""
SALT_BYTES = 12
"""What mosquitto 2.0.11 uses itself."""


def new_password() -> str:
    """256 random bits as 43 letters, digits, hyphens and underscores."""
    return secrets.token_urlsafe(32)


def password_hash(password: str, salt: bytes | None = None) -> str:
    """PBKDF2 with SHA-512 as in mosquitto_passwd(1): `$7$ITERATIONS$SALT$HASH`."""
    salt = secrets.token_bytes(SALT_BYTES) if salt is None else salt
    derived = hashlib.pbkdf2_hmac("sha512", password.encode(), salt, ITERATIONS)
    return f"$7${ITERATIONS}${base64.b64encode(salt).decode()}${base64.b64encode(derived).decode()}"


def password_file(accounts: Iterable[tuple[str, str]]) -> str:
    """The file that `password_file` names, from user names and hashes."""
    return "".join(f"{username}:{hashed}\n" for username, hashed in accounts)
