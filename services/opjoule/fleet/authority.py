"""The fleet's certificate authority; the only module that touches `cryptography`.

Keys are on P-256: quick on the slowest board. Every extension that Python 3.13's strict check asks for is there.
"""

import ipaddress
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID, ObjectIdentifier

from errors import SettingsError

COMMON_NAME_LETTERS = 64
"""RFC 5280, ub-common-name. The name is for people to read: a certificate is known by its number."""


@dataclass(frozen=True, slots=True)
class Validity:
    """From when until when a certificate is good."""

    start: datetime
    end: datetime


@dataclass(frozen=True, slots=True)
class Issued:
    """A certificate with its private key, both PEM."""

    certificate: bytes
    key: bytes

    @property
    def serial(self) -> int:
        """The number that revokes it."""
        return x509.load_pem_x509_certificate(self.certificate).serial_number


class Authority:
    """Signs certificates and the list of revoked ones."""

    def __init__(self, issued: Issued) -> None:
        self.issued = issued
        self._certificate = _certificate(issued.certificate)
        self._key = _key(issued.key)

    @property
    def until(self) -> datetime:
        """When all that it signed ends with it."""
        return self._certificate.not_valid_after_utc

    def for_server(self, hosts: Sequence[str], validity: Validity) -> Issued:
        """For a broker that is reached by these names and addresses. Raises SettingsError for one that is neither."""
        names = x509.SubjectAlternativeName([_general_name(host) for host in hosts])
        return self._leaf(hosts[0], validity, ExtendedKeyUsageOID.SERVER_AUTH, names)

    def for_client(self, name: str, validity: Validity) -> Issued:
        """For an account of the broker."""
        return self._leaf(name, validity, ExtendedKeyUsageOID.CLIENT_AUTH)

    def revocations(self, revoked: Iterable[tuple[int, datetime]], now: datetime) -> bytes:
        """The list of revoked numbers, PEM. It is good as long as the authority: an old list must not lock all out."""
        entries = [
            x509.RevokedCertificateBuilder().serial_number(serial).revocation_date(when).build()
            for serial, when in revoked
        ]
        builder = (
            x509.CertificateRevocationListBuilder()
            .issuer_name(self._certificate.subject)
            .last_update(now)
            .next_update(self.until)
            .add_extension(x509.CRLNumber(len(entries) + 1), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), critical=False)
        )
        for entry in entries:
            builder = builder.add_revoked_certificate(entry)
        return builder.sign(self._key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)

    def _leaf(
        self,
        name: str,
        validity: Validity,
        purpose: ObjectIdentifier,
        names: x509.SubjectAlternativeName | None = None,
    ) -> Issued:
        key = ec.generate_private_key(ec.SECP256R1())
        builder = _builder(_subject(name), self._certificate.subject, key, validity)
        builder = (
            builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_usage(signature=True), critical=True)
            .add_extension(x509.ExtendedKeyUsage([purpose]), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), critical=False)
        )
        if names is not None:
            builder = builder.add_extension(names, critical=False)
        return _signed(builder, self._key, key)


def new_authority(name: str, validity: Validity) -> Authority:
    """An authority that signs no other authorities."""
    key = ec.generate_private_key(ec.SECP256R1())
    builder = (
        _builder(_subject(name), _subject(name), key, validity)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signature=False), critical=True)
    )
    return Authority(_signed(builder, key, key))


def _certificate(pem: bytes) -> x509.Certificate:
    try:
        return x509.load_pem_x509_certificate(pem)
    except ValueError:
        raise SettingsError("the authority's certificate, private/ca.pem, is not one that opjoule made") from None


def _key(pem: bytes) -> ec.EllipticCurvePrivateKey:
    try:
        key = serialization.load_pem_private_key(pem, password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm):  # TypeError: it wants a password
        key = None
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise SettingsError("the authority's key, private/ca.key, is not one that opjoule made")
    return key


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, validity: Validity
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(validity.start)
        .not_valid_after(validity.end)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )


def _signed(
    builder: x509.CertificateBuilder, signer: ec.EllipticCurvePrivateKey, key: ec.EllipticCurvePrivateKey
) -> Issued:
    return Issued(
        builder.sign(signer, hashes.SHA256()).public_bytes(serialization.Encoding.PEM),
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()),
    )


def _subject(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name[:COMMON_NAME_LETTERS])])


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        pass
    try:
        name = host.encode("idna").decode()
    except ValueError:
        name = ""
    if not re.fullmatch(r"[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*", name):
        raise SettingsError(f"{host!r} is no name or address of a host")
    return x509.DNSName(name)


def _usage(signature: bool) -> x509.KeyUsage:
    """A leaf signs handshakes, an authority certificates and revocations."""
    return x509.KeyUsage(
        digital_signature=signature,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=not signature,
        crl_sign=not signature,
        encipher_only=False,
        decipher_only=False,
    )
