"""Campaigns become jobs: patterns, combinations, null and sham trains, and what a board cannot do."""

from collections.abc import Mapping

import pytest

from errors import SettingsError
from runner.campaign_file import parse_campaign
from runner.expansion import expand
from runner.job import Job
from runner.nulls import null_jobs, null_variant_of
from runner.plan import WholeCatalogue
from schemas import CATALOGUE, Operation, ParameterSet
from schemas.operations import Backend


class SmallOffer:
    """An OpenSSL with two sets of the catalogue and one of a provider, without a lib backend."""

    @property
    def parameter_sets(self) -> Mapping[str, ParameterSet]:
        """By name."""
        falcon = ParameterSet("falcon512", "provider", "", None, ("keygen", "sign", "verify"), 0, 0)
        return {"X25519": CATALOGUE["X25519"], "ML-DSA-65": CATALOGUE["ML-DSA-65"], "falcon512": falcon}

    def can(self, backend: Backend, operation: Operation, name: str = "none", /) -> str | None:
        """Nothing by lib, and nothing that it has not."""
        if operation == "sham":
            return None
        if backend == "lib":
            return "the backend lib cannot be used here"
        return None if operation == "null" or name in self.parameter_sets else f"OpenSSL 3.4.0 lacks {name}"


def _jobs(measure: str, above: str = "", offer: SmallOffer | WholeCatalogue | None = None) -> tuple[Job, ...]:
    campaign = parse_campaign(f"{above}\n[[measure]]\n{measure}", "c.toml")
    return expand(campaign, offer or WholeCatalogue()).operations


def test_a_pattern_stands_for_the_sets_that_have_the_operation() -> None:
    jobs = _jobs('operations = "sign"\nsets = ["ml-*", "RSA-[23]*"]')
    assert [job.parameter_set for job in jobs] == ["ML-DSA-44", "ML-DSA-65", "ML-DSA-87", "RSA-2048", "RSA-3072"]


def test_every_combination_that_makes_a_difference_is_one_job() -> None:
    jobs = _jobs(
        'operations = ["keygen", "sign"]\nsets = "ML-DSA-65"\nbackends = ["cli", "lib"]\nforms = ["pair", "private"]\n'
        'message_bytes = [100, 200]\ncapability_masks = ["", "OPENSSL_ia32cap=0"]'
    )
    assert len(jobs) == len(set(jobs)) == 2 * (2 + 1) + 2 * (2 + 2)
    assert {job.form for job in jobs if job.operation == "sign" or job.backend == "lib"} == {""}
    assert {job.message_bytes for job in jobs if job.operation == "keygen"} == {19_600}
    assert {job.message_bytes for job in jobs if job.operation == "sign"} == {100, 200}


def test_a_handshake_is_by_lib_with_every_group_and_certificate() -> None:
    jobs = _jobs('operations = "handshake"\nsets = ["X25519", "*MLKEM*"]\ncertificates = ["RSA-2048", "ML-DSA-65"]')
    assert {job.backend for job in jobs} == {"lib"}
    assert len(jobs) == 4 * 2
    assert null_jobs(jobs) == (Job("null", backend="lib", null_variant="connection"),)


def test_a_certificate_is_taken_in_any_case_and_an_unknown_one_is_answered_with_its_line_and_the_nearest() -> None:
    shakes = 'operations = "handshake"\nsets = "X25519"\ncertificates = '
    assert [job.certificate for job in _jobs(f'{shakes}["ml-dsa-65", "ED25519"]')] == ["ML-DSA-65", "Ed25519"]
    wrong = parse_campaign(f'[[measure]]\n{shakes}["ML-DSA-65",\n  "ECDSA-P256"]', "c.toml")
    with pytest.raises(SettingsError, match=r"^c.toml, line 5: ECDSA-P256: no such .*: did you mean ECDSA-P-256\?$"):
        expand(wrong, WholeCatalogue())


def test_the_message_size_of_the_campaign_holds_where_a_measure_has_none() -> None:
    plan = expand(
        parse_campaign(
            'message_bytes = 64\nitems = ["verify:ML-DSA-44"]\n[[measure]]\noperations = "sign"\nsets = "ML-DSA-44"',
            "c",
        ),
        WholeCatalogue(),
    )
    assert {job.message_bytes for job in plan.operations} == {64}
    assert [null.null_variant for null in plan.nulls] == ["processes=1,reads=key+message,message_bytes=64"]


def test_names_that_only_a_provider_has_need_no_catalogue() -> None:
    jobs = _jobs('operations = "sign"\nsets = ["falcon512", "ML-DSA-*"]', offer=SmallOffer())
    assert [job.parameter_set for job in jobs] == ["falcon512", "ML-DSA-65"]
    assert expand(parse_campaign('items = ["sign:Falcon512"]', "c"), SmallOffer()).operations == (
        Job("sign", "falcon512"),
    )


def test_what_the_board_cannot_do_is_left_out_with_the_reason_and_needs_no_null_train() -> None:
    campaign = parse_campaign(
        '[[measure]]\noperations = "sign"\nsets = ["ML-DSA-65", "ML-DSA-44"]\nbackends = ["cli", "lib"]', "c"
    )
    plan = expand(campaign, SmallOffer())
    assert plan.operations == (Job("sign", "ML-DSA-65"),)
    assert {null.backend for null in plan.nulls} == {"cli"}
    assert {(each.parameter_set, each.reason) for each in plan.skipped} == {
        ("ML-DSA-44", "OpenSSL 3.4.0 lacks ML-DSA-44"),
        ("ML-DSA-44", "the backend lib cannot be used here"),
        ("ML-DSA-65", "the backend lib cannot be used here"),
    }


def test_a_handshake_whose_certificate_the_board_cannot_sign_is_left_out() -> None:
    class WithLib(SmallOffer):
        def can(self, backend: Backend, operation: Operation, name: str = "none", /) -> str | None:
            return super().can("cli", operation, name)

    campaign = parse_campaign('items = ["handshake:X25519+ML-DSA-65", "handshake:X25519+ML-DSA-87"]', "c")
    plan = expand(campaign, WithLib())
    assert [job.certificate for job in plan.operations] == ["ML-DSA-65"]
    assert [each.reason for each in plan.skipped] == ["OpenSSL 3.4.0 lacks ML-DSA-87"]


def test_null_and_sham_trains_come_as_often_as_asked_and_at_least_once() -> None:
    above = "null_every = 4\nsham_every = 5"
    campaign = parse_campaign(f'{above}\n[[measure]]\noperations = ["keygen", "sign"]\nsets = "SLH-*"', "c")
    plan = expand(campaign, WholeCatalogue())
    assert len(plan.operations) == 24
    assert len(plan.shams) == 5
    assert [null.null_variant[:18] for null in plan.nulls] == ["processes=2,reads="] * 3 + ["processes=1,reads="] * 3
    few = expand(parse_campaign('[[measure]]\noperations = "sign"\nsets = "ML-DSA-44"', "c"), WholeCatalogue())
    assert (len(few.nulls), len(few.shams)) == (1, 1)


@pytest.mark.parametrize(
    ("measure", "said"),
    [
        (
            'operations = "sign"\nsets = ["ML-DSA-65",\n  "ML-DSA-64"]',
            "c.toml, line 5: ML-DSA-64: no such parameter set: did",
        ),
        ('operations = "sign"\nsets = "ML-KEM-*"', "c.toml, line 4: ML-KEM-*: no sign (it has keygen"),
        ('operations = "encrypt"\nsets = "Kyber*"', "c.toml, line 4: Kyber*: no such parameter set"),
    ],
)
def test_a_name_that_nobody_has_is_told_by_its_line(measure: str, said: str) -> None:
    with pytest.raises(SettingsError) as caught:
        _jobs(measure)
    assert str(caught.value).startswith(said)


@pytest.mark.parametrize(
    ("job", "variant"),
    [
        (Job("keygen", "ML-KEM-768"), "processes=2,reads=key"),
        (Job("keygen", "ML-KEM-768", form="private"), "processes=1"),
        (Job("sign", "ML-DSA-65", message_bytes=7), "processes=1,reads=key+message,message_bytes=7"),
        (Job("verify", "RSA-2048", form="as-published"), "processes=1,reads=key+message,message_bytes=19600"),
        (Job("decaps", "ML-KEM-768"), "processes=1,reads=key"),
        (Job("sign", "ML-DSA-65", "lib"), "calls=1"),
        (Job("handshake", "X25519", "lib", certificate="RSA-2048"), "connection"),
        (Job("sham"), ""),
        (Job("null", null_variant="processes=1"), ""),
    ],
)
def test_an_operation_names_the_null_train_with_its_processes_and_files(job: Job, variant: str) -> None:
    assert null_variant_of(job) == variant
    assert [null.null_variant for null in null_jobs([job])] == ([variant] if variant else [])


def test_a_campaign_of_more_trains_than_a_week_holds_is_refused() -> None:
    sizes = ", ".join(str(size) for size in range(1, 400))
    with pytest.raises(SettingsError, match=r"^c\.toml: more than 10000 trains in a round"):
        _jobs(f'operations = ["sign", "verify"]\nsets = "*"\nmessage_bytes = [{sizes}]')


def test_an_item_of_a_file_that_nobody_knows_is_told_by_its_line() -> None:
    campaign = parse_campaign('items = [\n  "sham",\n  "sing:ML-DSA-65",\n]', "c.toml")
    with pytest.raises(SettingsError, match=r"^c\.toml, line 3 has 'sing:ML-DSA-65': did you mean sign\?$"):
        expand(campaign, WholeCatalogue())
