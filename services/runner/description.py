"""What the retained `device` message says of the board and its software."""

from importlib.metadata import version

from runner.machine import Machine
from runner.offer import backends_of, skipped_of
from runner.openssl import Offer, OpenSsl
from schemas import DeviceDescription


def device(
    site: str, dut: str, machine: Machine, openssl: OpenSsl, offer: Offer, without_lib: str | None = None
) -> DeviceDescription:
    """The full description; `without_lib` says why the backend `lib` cannot be used."""
    return DeviceDescription(
        site=site,
        dut=dut,
        model=machine.model,
        architecture=machine.architecture,
        bits=machine.bits,
        cpu=machine.cpu,
        cores=machine.cores,
        memory_bytes=machine.memory_bytes,
        operating_system=machine.operating_system,
        kernel=machine.kernel,
        python=machine.python,
        openssl=openssl.version,
        openssl_program=openssl.program,
        opjoule=version("opjoule"),
        backends=backends_of(offer),
        parameter_sets=tuple(offer.parameter_sets),
        added_by_providers={
            name: each.operations for name, each in offer.parameter_sets.items() if each.family == "provider"
        },
        skipped=skipped_of(offer, without_lib),
    )
