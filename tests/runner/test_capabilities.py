"""What an OpenSSL offers, and what the lists of its providers add to the catalogue."""

from collections.abc import Callable
from pathlib import Path

import pytest
from pydantic import TypeAdapter

from errors import SettingsError
from runner.openssl import Offer, OpenSsl, find_openssl, offered
from runner.openssl.listing import Listed, added_parameter_sets, curves, foreign, groups, parse_listing
from schemas import CATALOGUE
from schemas.operations import ParameterSetName

Wrap = Callable[[OpenSsl, str, str], OpenSsl]


def _listed(text: str) -> tuple[Listed, ...]:
    return parse_listing(text)


def test_a_listing_is_read_with_all_names_and_the_provider() -> None:
    listing = (
        "Provided:\n  Name: OpenSSL ML-DSA-65 implementation\n    Type: Provider Algorithm\n"
        "    IDs: { 2.16.840.1.101.3.4.3.18, id-ml-dsa-65, ML-DSA-65, MLDSA65 } @ default\n"
        "    IDs: X9.42 DH @ default\n  { 1.3.9999.3.11, falcon512 } @ oqsprovider\n  mayo1 @ oqsprovider\n"
    )
    assert parse_listing(listing) == (
        Listed(("id-ml-dsa-65", "ML-DSA-65", "MLDSA65"), "default"),
        Listed(("falcon512",), "oqsprovider"),
        Listed(("mayo1",), "oqsprovider"),
    )


def test_curves_groups_and_providers_are_read() -> None:
    assert curves("  prime256v1: X9.62/SECG curve over a 256 bit\n  Oakley-EC2N-3:\n\tIPSec\n") == {
        "prime256v1",
        "Oakley-EC2N-3",
    }
    assert groups("x25519:MLKEM768:p256_frodo640aes\n") == {"x25519", "MLKEM768", "p256_frodo640aes"}
    assert groups("") == frozenset()
    assert foreign("Providers:\n  default\n    name: OpenSSL Default\n  oqsprovider\n    status: active\n") == (
        "oqsprovider",
    )


def test_an_oqs_provider_s_algorithms_become_parameter_sets_by_what_it_lists_them_for() -> None:
    managers = _listed(
        "IDs: { 1.3.101.110, X25519 } @ default\nIDs: { 2.16.840.1.101.3.4.4.2, ML-KEM-768 } @ oqsprovider\n"
        "IDs: frodo640aes @ oqsprovider\nIDs: p256_frodo640aes @ oqsprovider\nIDs: falcon512 @ oqsprovider\n"
        "IDs: unused @ oqsprovider\n"
    )
    sets = added_parameter_sets(
        managers,
        kems=_listed("ML-KEM-768 @ oqsprovider\nfrodo640aes @ oqsprovider\np256_frodo640aes @ oqsprovider\n"),
        signatures=_listed("{ 1.3.9999.3.11, falcon512 } @ oqsprovider\nno_keys @ oqsprovider\n"),
        exchanges=(),
        new_groups=frozenset({"p256_frodo640aes", "only_a_group"}),
    )
    assert {each.name: each.operations for each in sets} == {
        "frodo640aes": ("keygen", "encaps", "decaps"),
        "p256_frodo640aes": ("keygen", "encaps", "decaps", "handshake"),
        "falcon512": ("keygen", "sign", "verify"),
        "only_a_group": ("handshake",),
    }
    assert {each.family for each in sets} == {"provider"}


def test_what_a_provider_has_as_openssl_has_it_is_not_added() -> None:
    managers = _listed("IDs: { 1.2.840.113549.1.1.1, RSA, rsaEncryption } @ default\nIDs: rsaencryption @ pkcs11\n")
    assert added_parameter_sets(managers, (), _listed("rsaencryption @ pkcs11"), (), frozenset()) == ()


@pytest.mark.parametrize("name", ["ml_kem_768", "x" * 65, "näme", "-x"])
def test_a_name_that_no_topic_or_message_can_hold_is_not_added(name: str) -> None:
    listed = _listed(f"{name} @ other\n")
    assert added_parameter_sets(listed, listed, (), (), frozenset()) == ()


def test_two_names_of_a_provider_that_would_share_a_topic_are_both_left_out() -> None:
    listed = _listed("a_b @ other\na+b @ other\nc @ other\n")
    assert [each.name for each in added_parameter_sets(listed, listed, (), (), frozenset())] == ["c"]


def test_an_offer_says_in_one_line_what_cannot_be_done_and_why() -> None:
    sets = {name: CATALOGUE[name] for name in ("X25519", "ML-KEM-512")}
    offer = Offer("3.5.0", sets, {"cli": {("encaps", "ML-KEM-512"): "pkeyutl has no -encap"}})
    assert offer.can("cli", "derive", "X25519") is None
    assert offer.can("cli", "null") is None
    assert offer.can("none", "sham") is None
    assert offer.can("cli", "encaps", "ML-KEM-512") == "pkeyutl has no -encap"
    assert offer.can("cli", "sign", "ML-DSA-44") == "OpenSSL 3.5.0 lacks ML-DSA-44"
    assert offer.can("cli", "sign", "X25519") == "X25519 has no sign (it has keygen, derive, handshake)"
    assert offer.can("lib", "derive", "X25519") == "the backend lib cannot be used here"
    with_lib = offer.with_backend("lib", {("derive", "X25519"): "no EVP_PKEY_derive"})
    assert with_lib.can("lib", "derive", "X25519") == "no EVP_PKEY_derive"
    assert with_lib.can("lib", "encaps", "ML-KEM-512") is None


def test_curves_that_the_openssl_at_hand_lacks_are_not_offered(system_openssl: OpenSsl, wrap: Wrap) -> None:
    fake = wrap(system_openssl, "ecparam -list_curves", "echo '  prime256v1: a curve'; exit 0")
    names = offered(fake).parameter_sets
    assert "ECDSA-P-256" in names
    assert not {"ECDSA-secp160r1", "ECDH-P-224", "ECDSA-P-384"} & set(names)


def test_without_encap_in_pkeyutl_a_kem_has_its_keys_only(openssl35: OpenSsl, wrap: Wrap) -> None:
    offer = offered(wrap(openssl35, "pkeyutl -help", "echo ' -derive  Derive a secret' >&2; exit 0"))
    assert offer.can("cli", "keygen", "ML-KEM-768") is None
    said = f"pkeyutl of OpenSSL {openssl35.version} has no -encap and -decap"
    assert offer.can("cli", "encaps", "ML-KEM-768") == said


def test_handshakes_are_not_for_the_command_line(system_openssl: OpenSsl) -> None:
    assert offered(system_openssl).can("cli", "handshake", "X25519") == "a handshake is done by the backend lib only"


def test_the_names_of_added_sets_fit_into_a_message() -> None:
    listed = _listed("CROSSrsdp128balanced @ oqs\nrsa3072_falcon512 @ oqs\np256_mayo.1:x+y @ oqs\n")
    names = [each.name for each in added_parameter_sets(listed, (), listed, (), frozenset())]
    assert len(names) == 3
    assert [TypeAdapter(ParameterSetName).validate_python(name) for name in names] == names


def test_a_program_that_does_not_answer_is_one_line(tmp_path: Path) -> None:
    program = tmp_path / "openssl"
    program.write_text('#!/bin/sh\n[ "$1" = version ] && echo OpenSSL 3.0.17 1 Jul 2025\n')
    program.chmod(0o755)
    with pytest.raises(SettingsError, match=r"lists no key managers: 3\.0 or newer is needed"):
        offered(find_openssl(str(program)).openssl)
