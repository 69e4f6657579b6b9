"""Where the commands look for what services keep, and how they call this machine."""

import os
import socket
from pathlib import Path

from bus.settings import default_state_dir
from configure import variable_of
from schemas import slug


def state_dir() -> Path:
    """OPJOULE_STATE_DIR, else the default."""
    given = os.environ.get(variable_of("state_dir"))
    return Path(given) if given else default_state_dir()


def journal_file(given: Path | None) -> Path:
    """The one that was given, else OPJOULE_JOURNAL, else the one in the state directory."""
    named = given or os.environ.get(variable_of("journal"))
    return Path(named) if named else state_dir() / "journal.sqlite"


def board_name() -> str:
    """This machine's host name as the name of a DUT."""
    name = slug(socket.gethostname().split(".")[0]).strip("-")[:63]
    return name or "this-board"
