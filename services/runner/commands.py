"""What an operator asks over MQTT: judged as it comes, answered in the status, done between trains."""

import logging
from collections import deque
from collections.abc import Callable
from typing import Annotated, Generic, TypeVar

from pydantic import Field, ValidationError

from bus import Received
from errors import SettingsError
from schemas import Command, parse_topic
from schemas.base import Model
from schemas.operations import Text
from schemas.status import CommandAnswer

log = logging.getLogger(__name__)

REMEMBERED = 64
"""A broker may deliver a command again after a reconnect: what has one of the last ids is not done twice."""
UNREADABLE = "unreadable"
"""The `command_id` of an answer to what held none."""

Order = TypeVar("Order")


class CommandDesk(Generic[Order]):
    """Commands of one DUT. `understand` makes an order of one, or raises SettingsError: its text is the refusal.

    `running` names what is being done, empty when nothing is. An order waits in `order` until somebody takes it.
    `arrived` says whether what comes was sent while we were there: a broker keeps for days what was sent before.
    """

    def __init__(
        self,
        site: str,
        dut: str,
        understand: Callable[[Command], Order],
        answered: Callable[[CommandAnswer], None],
        arrived: Callable[[], bool] = lambda: True,
    ) -> None:
        self._owner = (site, dut)
        self._understand = understand
        self._answered = answered
        self._arrived = arrived
        self._seen: deque[str] = deque(maxlen=REMEMBERED)
        self._order: Order | None = None
        self.running = ""
        self.stop_asked = False

    def hear(self, received: Received) -> None:
        """A message that came; what is no command to our DUT is no matter."""
        address = parse_topic(received.topic)
        if address is None or address.kind != "command" or (address.site, address.dut) != self._owner:
            return
        command_id, command = _read(received.payload)
        if command_id in self._seen:
            return
        if command_id != UNREADABLE:
            self._seen.append(command_id)
        self._answer(command_id, self._untimely(received) or self._refusal(command))

    def take(self) -> Order | None:
        """The order that waits, if any; it is no longer here then."""
        order, self._order = self._order, None
        return order

    def _untimely(self, received: Received) -> str:
        if received.retained:
            return "it was sent with the retain flag: it would be done again at every start"
        return "" if self._arrived() else "it was sent before this runner was started: send it again if it still holds"

    def _refusal(self, command: Command | str) -> str:
        """Do it or note it; one line where it is refused, else nothing."""
        if isinstance(command, str):
            return command
        if command.action == "stop":
            return self._stop()
        if self.running or self._order is not None:
            return f"{self.running or 'another command'} is under way: send stop first, it takes effect after the train"
        try:
            self._order = self._understand(command)
        except SettingsError as error:
            return str(error)
        return ""

    def _stop(self) -> str:
        if not self.running and self._order is None:
            return "nothing is under way here"
        self._order = None
        self.stop_asked = bool(self.running)
        return ""

    def _answer(self, command_id: str, refusal: str) -> None:
        if refusal:
            log.warning("command %s refused: %s", command_id, refusal)
        else:
            log.info("command %s accepted", command_id)
        self._answered(CommandAnswer(command_id=command_id, accepted=not refusal, reason=refusal[:1000]))


class _Named(Model):
    """As much of a command as its answer needs."""

    command_id: Annotated[Text, Field(min_length=1)]


def _read(payload: bytes) -> tuple[str, Command | str]:
    """The id to answer under, and the command or what is wrong with it."""
    try:
        command = Command.model_validate_json(payload)
    except ValidationError as error:
        return _id_in(payload), f"no command: {_first(error)}"
    return command.command_id, command


def _id_in(payload: bytes) -> str:
    try:
        return _Named.model_validate_json(payload).command_id
    except ValidationError:
        return UNREADABLE


def _first(error: ValidationError) -> str:
    first = error.errors()[0]
    name = ".".join(str(part) for part in first["loc"])
    message = first["msg"].removeprefix("Value error, ")
    return f"{name}: {message}" if name else message
