"""The server's certificate: self-signed, made anew for each train, trusted by the client as its own authority."""

from pathlib import Path

from errors import SettingsError
from runner.openssl.cli import PREPARATION_LIMIT_S, OpenSslCli
from runner.openssl.der import pem_body
from runner.openssl.tls.contexts import HOST, Credentials
from runner.openssl.tls_names import new_key, why_no_certificate

DAYS = "3650"
"""Long, so that a clock that starts late and is set while it is used makes no certificate invalid."""
_CONFIGURATION = f"""\
[req]
distinguished_name = name
x509_extensions = extensions
prompt = no
[name]
CN = {HOST}
[extensions]
basicConstraints = critical, CA:TRUE
keyUsage = critical, digitalSignature, keyCertSign
subjectAltName = DNS:{HOST}
"""


def make_credentials(cli: OpenSslCli, folder: Path, certificate: str) -> Credentials:
    """A key and a certificate of this parameter set in `folder`. Raises SettingsError with OpenSSL's reason.

    It has the extensions that TLS looks at and no others, so that its size is that of key and signature.
    """
    reason = why_no_certificate(certificate)
    if reason is not None:
        raise SettingsError(reason)
    credentials = Credentials(folder / "certificate.pem", folder / "certificate-key.pem")
    configuration = folder / "certificate.cnf"
    configuration.write_text(_CONFIGURATION, encoding="ascii")
    files = ("-keyout", str(credentials.private_key), "-out", str(credentials.certificate))
    options = ("-config", str(configuration), "-days", DAYS, "-set_serial", "1", "-noenc")
    finished = cli.run(("req", "-x509", *new_key(certificate), *options, *files), PREPARATION_LIMIT_S)
    if finished.error is not None:
        raise SettingsError(f"no certificate of {certificate}: {finished.error}")
    return credentials


def certificate_bytes(credentials: Credentials) -> int:
    """The size of the certificate as it is sent (DER)."""
    return len(pem_body(credentials.certificate.read_text(encoding="ascii")))
