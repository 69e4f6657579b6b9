"""Where the commands look for what services keep: the same variables, the same defaults."""

import os
from pathlib import Path

from bus.settings import default_state_dir
from configure import variable_of


def state_dir() -> Path:
    """OPJOULE_STATE_DIR, else the default."""
    given = os.environ.get(variable_of("state_dir"))
    return Path(given) if given else default_state_dir()


def journal_file(given: Path | None) -> Path:
    """The one that was given, else OPJOULE_JOURNAL, else the one in the state directory."""
    named = given or os.environ.get(variable_of("journal"))
    return Path(named) if named else state_dir() / "journal.sqlite"
