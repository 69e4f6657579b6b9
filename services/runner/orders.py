"""What a runner is to run: its own plan, or what a command asks for."""

from dataclasses import dataclass

from errors import SettingsError
from runner.campaign_file import Campaign, campaign_of_items, parse_campaign
from runner.expansion import Offer, Plan, expand
from runner.job import MOST_MESSAGE_BYTES
from runner.plan import campaign_of
from runner.settings import RunnerSettings
from runner.shipped import load_campaign, shipped_campaigns
from runner.suggest import nearest
from schemas import Command

WAIT = "wait"
"""The plan of a runner that does only what commands ask for."""
_OVER = ("train_s", "preset", "gap_s", "rounds", "message_bytes", "seed")
"""Settings that stand over what the campaign of `--plan` says."""
_WHERE_UNSAID = ("train_s", "preset", "gap_s", "message_bytes")
"""Settings that a commanded campaign gets where it says nothing itself."""


@dataclass(frozen=True, slots=True)
class Order:
    """A campaign and its plan on this board."""

    campaign: Campaign
    plan: Plan


def own_campaign(settings: RunnerSettings) -> Campaign | None:
    """The campaign of `--plan` with the settings that stand over it; None for `wait`. Raises SettingsError."""
    if settings.plan.strip().lower() == WAIT:
        return None
    campaign = campaign_of(settings.plan)
    if settings.rounds is not None and campaign.until is not None:
        raise SettingsError(
            f"--rounds (OPJOULE_ROUNDS) is {settings.rounds}, and the until of {campaign.name} says when it ends: "
            "leave one of them out"
        )
    return _with(campaign, settings, _OVER)


def ordered(command: Command, offer: Offer, settings: RunnerSettings) -> Order:
    """What `start` and `train` ask for. Raises SettingsError with the reason of the refusal."""
    campaign = _of_train(command) if command.action == "train" else _of_start(command)
    unsaid = tuple(name for name in _WHERE_UNSAID if name not in campaign.model_fields_set)
    campaign = _with(campaign, settings, unsaid)
    plan = expand(campaign, offer)
    if not plan.jobs:
        reasons = "; ".join(dict.fromkeys(each.reason for each in plan.skipped))
        raise SettingsError(reasons or "there is nothing to measure in it")
    return Order(campaign, plan)


def _with(campaign: Campaign, settings: RunnerSettings, names: tuple[str, ...]) -> Campaign:
    over = {name: value for name in names if (value := getattr(settings, name)) is not None}
    if settings.message_file is not None:
        over["message_bytes"] = _size_bytes(settings)
    return campaign.model_copy(update=over) if over else campaign


def _of_start(command: Command) -> Campaign:
    """A shipped campaign or the text that came along: no command reads a file of the board."""
    if command.campaign_toml is not None:
        return parse_campaign(command.campaign_toml, "campaign_toml")
    name = (command.campaign or "").strip().lower()
    if name not in shipped_campaigns():
        raise SettingsError(f"no campaign is called {name!r}: {nearest(name, shipped_campaigns())}")
    return load_campaign(name)


def _of_train(command: Command) -> Campaign:
    if command.backend == "none" and command.operation != "sham":
        raise SettingsError(f"{command.operation} has no backend none: cli or lib")
    backend = f"{command.backend}/" if command.backend in ("cli", "lib") else ""
    name = f":{command.parameter_set}" if command.parameter_set else ""
    item = f"{backend}{command.operation}{name}"
    return campaign_of_items(item, "the command").model_copy(update={"name": item})


def _size_bytes(settings: RunnerSettings) -> int:
    path = settings.message_file
    try:
        size_bytes = path.stat().st_size if path is not None else 0
    except OSError as error:
        raise SettingsError(f"--message-file (OPJOULE_MESSAGE_FILE) {path}: {error.strerror}") from None
    if not 1 <= size_bytes <= MOST_MESSAGE_BYTES:
        raise SettingsError(
            f"--message-file (OPJOULE_MESSAGE_FILE) {path}: {size_bytes} bytes, not 1 to {MOST_MESSAGE_BYTES}"
        )
    return size_bytes
