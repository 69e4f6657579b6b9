"""Where Grafana is, who asks, and what its data source leads to."""

from pathlib import Path
from typing import Annotated

from pydantic import Field

from configure import Settings
from errors import SettingsError


class GrafanaSettings(Settings):
    """A Grafana that already exists; it is given a data source, a folder, dashboards and annotations."""

    grafana_url: Annotated[str, Field(description="http://HOST[:PORT][/PREFIX] or https://...")] = (
        "http://127.0.0.1:3000"
    )
    grafana_token_file: Annotated[Path | None, Field(description="file with a service account's token")] = None
    grafana_user: Annotated[str | None, Field(min_length=1, description="user, where there is no token")] = None
    grafana_password_file: Annotated[Path | None, Field(description="file with that user's password")] = None
    grafana_ca_file: Annotated[
        Path | None, Field(description="certificates that Grafana is checked against (PEM); else those of the system")
    ] = None
    grafana_influx_url: Annotated[
        str | None, Field(min_length=1, description="InfluxDB, as Grafana reaches it; without it the one there is kept")
    ] = None
    grafana_influx_bucket: Annotated[
        str | None,
        Field(
            min_length=1,
            description="bucket (InfluxDB 1 and 3: database) that Grafana reads; without it the one there is kept, and"
            " a new data source reads opjoule",
        ),
    ] = None
    grafana_influx_token_file: Annotated[
        Path | None, Field(description="file with a token that may read the bucket; without it the one there is kept")
    ] = None

    def auth(self) -> str | tuple[str, str]:
        """The token, else user and password. Raises SettingsError where neither or both are given."""
        if self.grafana_token_file is not None and self.grafana_user is None:
            return first_line(self.grafana_token_file, "Grafana token")
        if self.grafana_user is not None and self.grafana_password_file is not None and not self.grafana_token_file:
            return self.grafana_user, first_line(self.grafana_password_file, "Grafana password")
        raise SettingsError("give either --grafana-token-file, or --grafana-user and --grafana-password-file")

    def influx_authorization(self) -> str:
        """The header by which Grafana reads the bucket; empty where the one it has is to be kept."""
        if self.grafana_influx_token_file is None:
            return ""
        return f"Token {first_line(self.grafana_influx_token_file, 'InfluxDB token')}"


def first_line(path: Path, what: str) -> str:
    """A secret. Raises SettingsError for a file that cannot be read, is empty or holds no printable ASCII."""
    try:
        lines = path.read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8 text"
        raise SettingsError(f"{what} file {path} cannot be read: {reason}") from None
    secret = lines[0].strip() if lines else ""
    if not secret:
        raise SettingsError(f"{what} file {path} is empty")
    if not (secret.isascii() and secret.isprintable()):
        raise SettingsError(f"{what} file {path} holds characters that no header can carry")
    return secret
