"""The OpenSSL of this machine, for `opjoule run` without a broker: found, what it can do, and jobs prepared on it."""

import argparse
import os
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass

from rich.console import Console

from errors import SettingsError
from opjoule.run.asked import is_in_process
from runner.campaign_file import Campaign
from runner.job import Job
from runner.offer import whole_offer
from runner.openssl import Offer, OpenSsl, OpenSslCli, obtain_openssl, private_folder
from runner.openssl.process import ensure_process
from runner.operations import Bench, Work, prepare_work
from runner.stopping import Stop

SEED = 0
"""Of the messages that are signed."""
NOT_ASKED_FOR = "nothing asks for the backend lib"


@dataclass(frozen=True, slots=True)
class Here:
    """An OpenSSL with its offer, and in one line each what is to be said of it."""

    openssl: OpenSsl
    offer: Offer
    remarks: tuple[str, ...]


def look_here(args: argparse.Namespace, console: Console, campaign: Campaign) -> Here:
    """Find the OpenSSL; for a campaign with the backend lib this process may start again on its libraries.

    Raises SettingsError where there is none.
    """
    by = "--openssl" if args.openssl else "OPJOULE_OPENSSL"
    with console.status("looking for OpenSSL 3.5 or newer"):
        found = obtain_openssl(args.openssl or os.environ.get("OPJOULE_OPENSSL") or None, by=by)
    without_lib = ensure_process(found.openssl) if is_in_process(campaign) else NOT_ASKED_FOR
    remarks = [found.shortfall] if found.shortfall else []
    if without_lib not in (None, NOT_ASKED_FOR):
        remarks.append(f"no backend lib: {without_lib}")
    return Here(found.openssl, whole_offer(found.openssl, without_lib), tuple(remarks))


@contextmanager
def prepared(here: Here, job: Job, stop: Stop) -> Iterator[Work]:
    """A job, ready to be repeated. Raises SettingsError where it cannot be done here, and Stopped."""
    if job.backend == "lib" and job.capability_mask:
        raise SettingsError(f"{job.capability_mask} needs a process of its own for lib: it can be had on boards")
    mask = job.capability_mask if job.backend == "cli" else ""
    with private_folder() as folder, closing(OpenSslCli(here.openssl, folder, stop, mask)) as cli:
        try:
            work = prepare_work(Bench(cli, folder, job, here.offer.parameter_sets.get(job.parameter_set), SEED))
        except OSError as error:
            raise SettingsError(f"cannot work in {folder}: {error.strerror}") from None
        try:
            yield work
        finally:
            work.close()
