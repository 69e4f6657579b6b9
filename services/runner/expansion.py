"""A campaign becomes jobs: patterns become names, null and sham trains come in, what cannot be done goes. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from itertools import chain, islice, product
from math import ceil
from typing import Protocol

from errors import SettingsError
from runner.campaign_file import Campaign, Measure
from runner.job import FORMS_OF, Job
from runner.nulls import null_jobs
from runner.openssl.tls_names import why_no_certificate
from runner.plan_items import jobs_of_items
from runner.procedures import study_nulls
from runner.suggest import nearest
from schemas import CATALOGUE, Operation, ParameterSet, Skipped
from schemas.operations import Backend

WITH_MESSAGE: tuple[Operation, ...] = ("sign", "verify")
SHAM = Job("sham")
MOST_JOBS = 10_000
"""A week of trains. Combinations of long lists would fill the memory of a small board."""


class Offer(Protocol):
    """What the OpenSSL at hand can do."""

    @property
    def parameter_sets(self) -> Mapping[str, ParameterSet]:
        """Those of the catalogue that it offers, and those that its providers add."""
        ...

    def can(self, backend: Backend, operation: Operation, name: str, /) -> str | None:
        """None when it can, else one line that says why not."""
        ...


@dataclass(frozen=True, slots=True)
class Plan:
    """One round: the operations as written, null and sham trains as often as they come in it, and what is left out."""

    operations: tuple[Job, ...]
    nulls: tuple[Job, ...]
    shams: tuple[Job, ...]
    skipped: tuple[Skipped, ...] = ()

    @property
    def jobs(self) -> tuple[Job, ...]:
        """All trains of a round."""
        return (*self.operations, *self.nulls, *self.shams)


def expand(campaign: Campaign, offer: Offer) -> Plan:
    """The plan of a campaign on this board.

    Raises SettingsError, with the line where it is a file's, for a name that neither the catalogue nor a provider has.
    """
    known = {**CATALOGUE, **offer.parameter_sets}
    measured = (_measured(campaign, number, each, known) for number, each in enumerate(campaign.measure))
    wanted = tuple(islice(chain.from_iterable(measured), MOST_JOBS + 1))
    if len(wanted) > MOST_JOBS:
        raise SettingsError(f"{campaign.source.name}: more than {MOST_JOBS} trains in a round: list less to combine")
    listed = jobs_of_items(
        campaign.items, campaign.message_bytes, known, lambda item: campaign.source.at(("items", 0), item)
    )
    jobs, skipped = _split(dict.fromkeys((*wanted, *listed)), offer)
    operations = tuple(job for job in jobs if job.operation not in ("null", "sham"))
    own_nulls = tuple(job for job in jobs if job.operation == "null")
    shams = max(ceil(len(operations) / campaign.sham_every), 1) if campaign.sham_every else 0
    return Plan(
        operations=operations,
        nulls=(*own_nulls, *(null for null in _nulls(campaign, operations) if null not in own_nulls)),
        shams=(SHAM,) * (shams or int(SHAM in jobs)),
        skipped=tuple(dict.fromkeys(skipped)),
    )


def _nulls(campaign: Campaign, operations: tuple[Job, ...]) -> Iterator[Job]:
    """Each null train once per `null_every` of the operations that need it, and once at least."""
    if not campaign.null_every:
        return
    if campaign.study is not None:
        for null in study_nulls(campaign.study):
            yield from [null] * max(len(operations) // campaign.null_every, 1)
        return
    for null in null_jobs(operations):
        needed_by = sum(null in null_jobs([job]) for job in operations)
        yield from [null] * ceil(needed_by / campaign.null_every)


def _measured(campaign: Campaign, number: int, measure: Measure, known: Mapping[str, ParameterSet]) -> Iterator[Job]:
    names = _names(campaign, number, measure, known)
    certificates = [_certificate(campaign, number, each, known) for each in measure.certificates]
    for operation in measure.operations:
        able = [name for name in names if operation in known[name].operations]
        if not able and len(measure.operations) == 1:
            where = campaign.source.at(("measure", number, "operations"))
            raise SettingsError(f"{where}: none of {', '.join(measure.sets)} has {operation}")
        for name in able:
            yield from _combinations(campaign, measure, operation, name, certificates)


def _names(campaign: Campaign, number: int, measure: Measure, known: Mapping[str, ParameterSet]) -> list[str]:
    """The parameter sets that the patterns of a `[[measure]]` stand for, each once."""
    names: dict[str, None] = {}
    for pattern in measure.sets:
        found = [name for name in known if fnmatchcase(name.lower(), pattern.lower())]
        able = [name for name in found if set(known[name].operations) & set(measure.operations)]
        if not able:
            where = campaign.source.at(("measure", number, "sets", 0), pattern)
            raise SettingsError(f"{where}: {pattern}: {_no_match(measure, pattern, found, known)}")
        names |= dict.fromkeys(able)
    return list(names)


def _certificate(campaign: Campaign, number: int, text: str, known: Mapping[str, ParameterSet]) -> str:
    """The parameter set that signs a certificate, as the catalogue or a provider writes it."""
    name = next((name for name in known if name.lower() == text.lower()), None)
    if name is None:
        where = campaign.source.at(("measure", number, "certificates", 0), text)
        able = [name for name, each in known.items() if "sign" in each.operations]
        raise SettingsError(f"{where}: {text}: no such parameter set: {nearest(text, able)}")
    return name


def _no_match(measure: Measure, pattern: str, found: list[str], known: Mapping[str, ParameterSet]) -> str:
    if not found:
        return f"no such parameter set: {nearest(pattern, known)}"
    return f"no {' or '.join(measure.operations)} (it has {', '.join(known[found[0]].operations)})"


def _combinations(
    campaign: Campaign, measure: Measure, operation: Operation, name: str, certificates: Sequence[str]
) -> Iterator[Job]:
    """Everything that a `[[measure]]` lists and that makes a difference to this operation."""
    sizes = (measure.message_bytes or (campaign.message_bytes,)) if operation in WITH_MESSAGE else ()
    signers = certificates if operation == "handshake" else ("",)
    backends: tuple[Backend, ...] = ("lib",) if operation == "handshake" else measure.backends
    for backend, form, mask, certificate in product(backends, measure.forms, measure.capability_masks, signers):
        for message_bytes in sizes or (Job(operation).message_bytes,):
            yield Job(
                operation=operation,
                parameter_set=name,
                backend=backend,
                form=form if backend == "cli" and form in FORMS_OF.get(operation, ()) else "",
                message_bytes=message_bytes,
                capability_mask=mask,
                certificate=certificate,
            )


def _split(jobs: Mapping[Job, None], offer: Offer) -> tuple[tuple[Job, ...], tuple[Skipped, ...]]:
    reasons = {job: _why_not(job, offer) for job in jobs}
    skipped = (
        Skipped(operation=job.operation, parameter_set=job.parameter_set, reason=reason[:256])
        for job, reason in reasons.items()
        if reason is not None
    )
    return tuple(job for job, reason in reasons.items() if reason is None), tuple(skipped)


def _why_not(job: Job, offer: Offer) -> str | None:
    reason = offer.can(job.backend, job.operation, job.parameter_set)
    if reason is None and job.certificate:
        return why_no_certificate(job.certificate) or offer.can("cli", "sign", job.certificate)
    return reason
