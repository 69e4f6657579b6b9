"""The playlist of the recording source: which file is played as which meter of which DUT, and when it began."""

from pathlib import Path
from typing import Annotated

from pydantic import Field, TypeAdapter, ValidationError

from errors import SettingsError
from schemas import Model
from schemas.base import DutName, Identifier, TimeNs
from schemas.samples import TimelineId


class PlaylistEntry(Model):
    """One recording. Entries of one DUT, meter and timeline continue one stream, in the order of the list."""

    path: Path
    dut: DutName
    meter: Identifier
    meter_model: Annotated[str, Field(max_length=64)]
    timeline_id: TimelineId
    start_ns: Annotated[TimeNs, Field(description="time of the first row")]


_PLAYLIST = TypeAdapter(list[PlaylistEntry])


def read_playlist(path: Path) -> list[PlaylistEntry]:
    """The entries of a playlist file (JSON); relative paths are relative to it. Raises SettingsError."""
    try:
        entries = _PLAYLIST.validate_json(path.read_bytes())
    except OSError as error:
        raise SettingsError(f"playlist {path}: {error.strerror}") from None
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise SettingsError(f"playlist {path}: {where + ': ' if where else ''}{first['msg']}") from None
    return [entry.model_copy(update={"path": path.parent / entry.path}) for entry in entries]
