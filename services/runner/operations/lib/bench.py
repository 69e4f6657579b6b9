"""A job of the `lib` backend on the bench: in this process, or in a child of its own where a capability mask is set."""

import platform
from collections.abc import Callable, Hashable
from contextlib import ExitStack, closing
from dataclasses import replace
from functools import partial
from typing import TypeVar

from errors import SettingsError
from runner.openssl.lib import load
from runner.openssl.lib.child import Child, libraries_of
from runner.openssl.masks import mask_environment, mask_in_variant
from runner.operations.lib.case import Case
from runner.operations.lib.prepare import prepare_in_process
from runner.operations.lib.questions import MODULE, Opening, Prepared, Refused
from runner.operations.work import Bench, Usage, Work
from runner.segments import TrainPlan
from runner.train import Repeat, Repetition, TrainRecord

_MASK_OF_MACHINE = {
    "x86_64": "OPENSSL_ia32cap",
    "i686": "OPENSSL_ia32cap",
    "aarch64": "OPENSSL_armcap",
    "arm64": "OPENSSL_armcap",
    "armv6l": "OPENSSL_armcap",
    "armv7l": "OPENSSL_armcap",
    "riscv64": "OPENSSL_riscvcap",
}
Answer = TypeVar("Answer")
_usages: dict[tuple[str, Hashable], Usage] = {}


def prepare_lib(bench: Bench) -> Work:
    """Work of libcrypto. Raises SettingsError when it cannot be loaded or cannot do it."""
    job = bench.job
    case = Case(job, bench.each, bench.seed, bench.message() if job.operation in ("sign", "verify") else b"")
    opening = Opening(libraries_of(bench.cli.openssl).crypto, case)
    usage = partial(measured_usage, bench, MODULE, opening, replace(case, seed=0, message=b""))
    if job.capability_mask:
        return masked_work(bench, MODULE, opening, usage)
    return replace(prepare_in_process(load(opening.library), case), usage=usage)


def measured_usage(bench: Bench, module: str, opening: object, what: Hashable) -> Usage:
    """What a repetition takes, measured in a child and once only for `what`; `opening` is the child's first question.

    Memory is the most that a repetition adds to what is resident in a process that has libcrypto, keys and buffers
    ready: heap and stack of the operation, without the process. It comes in whole pages, and may be 64 kB too high
    where the kernel maps sixteen at a time; None where no page is seen. CPU time is the mean over repetitions.
    """
    key = (bench.cli.openssl.program, what)
    if key not in _usages:
        with ExitStack() as opened:
            child = opened.enter_context(closing(_child(bench, module)))
            _opened(child, opening)
            _usages[key] = _asked(child, Usage, "usage")
    return _usages[key]


def masked_work(bench: Bench, module: str, opening: object, usage: Callable[[], Usage]) -> Work:
    """Work of a child that was started with the mask. Raises SettingsError when it cannot be done."""
    _demand_mask_of_this_machine(bench.job.capability_mask)
    with ExitStack() as opened:
        child = opened.enter_context(closing(_child(bench, module)))
        prepared = _opened(child, opening)

        def train(plan: TrainPlan, every: int, _: float) -> TrainRecord:
            return _asked(child, TrainRecord, "train", plan, every)

        repeat: Repeat = partial(_asked, child, Repetition, "repetition")
        return Work(
            variant=",".join(part for part in (prepared.variant, mask_in_variant(bench.job.capability_mask)) if part),
            begin=lambda _: repeat,
            null_variant=prepared.null_variant,
            output_bytes=prepared.output_bytes,
            size_unknown=prepared.size_unknown,
            check=_checked(child),
            usage=usage,
            handshake=None if prepared.handshake is None else partial(_same, prepared.handshake),
            close=opened.pop_all().close,
            run_train=train,
        )


def _same(answer: Answer) -> Answer:
    return answer


def _child(bench: Bench, module: str) -> Child:
    return Child(bench.cli.openssl, module, mask_environment(bench.job.capability_mask), bench.cli.stop)


def _opened(child: Child, opening: object) -> Prepared:
    answer = child.ask(opening)
    if isinstance(answer, Refused):
        raise SettingsError(answer.reason)
    assert isinstance(answer, Prepared)
    return answer


def _asked(child: Child, kind: type[Answer], name: str, *arguments: object) -> Answer:
    answer = child.ask((name, arguments))
    assert isinstance(answer, kind)
    return answer


def _checked(child: Child) -> Callable[[], str | None]:
    def check() -> str | None:
        try:
            error: str | None = child.ask(("check", ()))
        except SettingsError as lost:
            return str(lost)
        return error

    return check


def _demand_mask_of_this_machine(capability_mask: str) -> None:
    """A mask that this processor's libcrypto does not read would be a variant that is none."""
    name, machine = next(iter(mask_environment(capability_mask))), platform.machine()
    read = _MASK_OF_MACHINE.get(machine)
    if read != name:
        raise SettingsError(f"{name} has no effect on {machine}{f': libcrypto reads {read} there' if read else ''}")
