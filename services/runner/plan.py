"""What to run: the name of a shipped campaign, a campaign file, or a comma list of items becomes a campaign."""

from collections.abc import Mapping
from types import MappingProxyType

from errors import SettingsError
from runner.campaign_file import Campaign, campaign_of_items
from runner.expansion import Offer, Plan, expand
from runner.job import NOTHING, Job
from runner.plan_items import refuse_unknown_words
from runner.shipped import is_path, load_campaign, shipped_campaigns
from schemas import CATALOGUE, Operation, ParameterSet
from schemas.operations import Backend

__all__ = ["Offer", "Plan", "WholeCatalogue", "campaign_of", "expand", "parse_plan"]


class WholeCatalogue:
    """The offer of an OpenSSL that has everything in the catalogue and nothing more, by every backend."""

    @property
    def parameter_sets(self) -> Mapping[str, ParameterSet]:
        """The catalogue."""
        return MappingProxyType(CATALOGUE)

    def can(self, _backend: Backend, operation: Operation, name: str = NOTHING, /) -> str | None:
        """None for what the catalogue says a parameter set has, and for null and sham."""
        if operation in ("null", "sham") or operation in CATALOGUE[name].operations:
            return None
        return f"{name} has no {operation}"


def campaign_of(text: str) -> Campaign:
    """The campaign that a plan's text means. Raises SettingsError with the nearest known word."""
    if is_path(text) or text.strip().lower() in shipped_campaigns():
        return load_campaign(text)
    campaign = campaign_of_items(text)
    if not campaign.items:
        raise SettingsError(
            "--plan (OPJOULE_PLAN) is empty: name a campaign such as demo or all, a file, or items such as "
            "keygen:ML-KEM-768,lib/sign:ML-DSA-65,null,sham"
        )
    refuse_unknown_words(campaign.items, shipped_campaigns(), lambda _: campaign.source.name)
    return campaign


def parse_plan(text: str) -> tuple[Job, ...]:
    """The jobs of a plan's text on a board that can do everything. Raises SettingsError for what nobody knows."""
    return expand(campaign_of(text), WholeCatalogue()).jobs
