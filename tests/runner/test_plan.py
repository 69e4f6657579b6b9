"""The plan: a campaign's name, a file or a comma list become a campaign, and what is not known is answered."""

from pathlib import Path

import pytest

from errors import SettingsError
from runner.job import Job
from runner.plan import WholeCatalogue, campaign_of, expand, parse_plan
from schemas import CATALOGUE

READS_BOTH = "processes=1,reads=key+message,message_bytes=19600"


def test_items_name_operation_and_parameter_set_in_any_case() -> None:
    assert parse_plan(" keygen:ml-kem-768, Sign:ECDSA-P-256 ,null:2,sham") == (
        Job("keygen", "ML-KEM-768"),
        Job("sign", "ECDSA-P-256"),
        Job("null", null_variant="processes=2"),
        Job("sham"),
    )


def test_items_name_backend_form_and_the_certificate_of_a_handshake() -> None:
    assert parse_plan("lib/encaps:ML-KEM-768,keygen:ML-KEM-768/private,handshake:x25519mlkem768+ml-dsa-65") == (
        Job("encaps", "ML-KEM-768", "lib"),
        Job("keygen", "ML-KEM-768", form="private"),
        Job("handshake", "X25519MLKEM768", "lib", certificate="ML-DSA-65"),
    )


def test_null_alone_means_every_null_train_that_the_other_items_need() -> None:
    jobs = parse_plan(
        "null,keygen:ML-KEM-768,lib/sign:ML-DSA-65,sign:ML-DSA-65,verify:ML-DSA-65,handshake:X25519+RSA-2048"
    )
    assert [(job.backend, job.null_variant) for job in jobs if job.operation == "null"] == [
        ("cli", "processes=2,reads=key"),
        ("lib", "calls=1"),
        ("cli", READS_BOTH),
        ("lib", "connection"),
    ]


def test_null_with_nothing_that_needs_one_is_one_process() -> None:
    assert parse_plan("null,sham") == (Job("null", null_variant="processes=1"), Job("sham"))


def test_the_demo_has_at_most_ten_trains_of_every_post_quantum_family_and_both_backends() -> None:
    jobs = parse_plan("demo")
    assert 8 <= len(jobs) <= 10
    assert Job("sham") in jobs
    assert {job.backend for job in jobs if job.operation == "null"} == {"cli", "lib"}
    families = {CATALOGUE[job.parameter_set].family for job in jobs if job.parameter_set in CATALOGUE}
    assert families >= {"ML-KEM", "ML-DSA", "SLH-DSA", "XDH", "ECDSA"}


def test_all_means_every_operation_of_every_parameter_set_by_both_backends() -> None:
    jobs = expand(campaign_of("all"), WholeCatalogue()).operations
    wanted = {
        (backend, operation, name)
        for name, each in CATALOGUE.items()
        for operation in each.operations
        for backend in ("cli", "lib")
        if (backend, operation) != ("cli", "handshake")
    }
    assert {(job.backend, job.operation, job.parameter_set) for job in jobs} == wanted


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("keygen:MLKEM768", "did you mean ML-KEM-768?"),
        ("sing:ML-DSA-65", "did you mean sign?"),
        ("sign:ML-KEM-768", "ML-KEM-768 has no sign (it has keygen"),
        ("null:0", "1 to 9 processes"),
        (f"null:{'9' * 5000}", "1 to 9 processes"),
        ("null:many", "1 to 9 processes"),
        ("sham:1", "did you mean sham?"),
        ("lib/null", "did you mean null?"),
        ("lob/sign:ML-DSA-65", "did you mean lib?"),
        ("keygen:ML-KEM-768/privat", "did you mean private?"),
        ("sign:ML-DSA-65/private", "known are as-published"),
        ("encaps:ML-KEM-768/pair", "encaps has one form only: leave out /pair"),
        ("lib/keygen:ML-KEM-768/private", "forms are of the command line"),
        ("handshake:X25519", "write handshake:GROUP+CERTIFICATE"),
        ("handshake:X25519+ML-KEM-768", "ML-KEM-768 has no sign"),
        ("continous", "did you mean continuous?"),
        ("study-one", "did you mean study-"),
        ("qqqq", "known are keygen, encaps"),
        (" , ", "is empty"),
        ("no-such-file.toml", "no-such-file.toml: No such file"),
    ],
)
def test_what_is_not_known_is_answered_with_what_is(text: str, said: str) -> None:
    with pytest.raises(SettingsError) as caught:
        parse_plan(text)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_file_is_a_plan_too(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text('items = ["sign:ML-DSA-65"]\n')
    campaign = campaign_of(str(path))
    assert campaign.name == "mine"
    assert expand(campaign, WholeCatalogue()).jobs == (
        Job("sign", "ML-DSA-65"),
        Job("null", null_variant=READS_BOTH),
        Job("sham"),
    )


def test_a_file_that_is_not_text_is_told_by_its_line(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_bytes(b'name = "a"\n# \xff\n')
    with pytest.raises(SettingsError, match=r"mine\.toml, line 2: not UTF-8"):
        campaign_of(str(path))
