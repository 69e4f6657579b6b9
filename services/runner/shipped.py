"""Campaigns from disk: those that come with opjoule, by name, and files."""

from pathlib import Path

from errors import SettingsError
from runner.campaign_file import Campaign, parse_campaign
from runner.suggest import nearest

SUFFIX = ".toml"
FOLDER = Path(__file__).parent / "campaigns"


def shipped_campaigns() -> tuple[str, ...]:
    """The names of the campaigns that come with opjoule, in alphabetical order."""
    return tuple(sorted(path.stem for path in FOLDER.glob(f"*{SUFFIX}")))


def load_campaign(name_or_path: str) -> Campaign:
    """A shipped campaign by its name in any case, or that of a file. Raises SettingsError in one line."""
    name = name_or_path.strip().lower()
    if name in shipped_campaigns():
        return parse_campaign((FOLDER / f"{name}{SUFFIX}").read_text("utf-8"), name)
    if not is_path(name_or_path):
        raise SettingsError(f"no campaign is called {name_or_path!r}: {nearest(name_or_path, shipped_campaigns())}")
    return _of_file(Path(name_or_path.strip()))


def is_path(text: str) -> bool:
    """Whether a plan is the name of a campaign file: it ends with .toml."""
    return text.strip().lower().endswith(SUFFIX)


def _of_file(path: Path) -> Campaign:
    try:
        text = path.read_text("utf-8")
    except OSError as error:
        raise SettingsError(f"{path}: {error.strerror}") from None
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise SettingsError(f"{path}, line {line}: not UTF-8") from None
    return parse_campaign(text, str(path))
