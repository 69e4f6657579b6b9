"""Where a newer release of this machine's distribution lies, from its own apt sources."""

from runner.openssl.apt_sources import Source, candidates, os_release, parse_list, parse_stanzas

DEBIAN = """\
Types: deb deb-src
# an older snapshot
URIs: http://mirror.test/debian
Suites: bookworm bookworm-updates
Components: main contrib
Signed-By: /usr/share/keyrings/debian.gpg

Enabled: no
Types: deb
URIs: http://off.test/debian
Suites: bookworm
Components: main

Types: deb
URIs: http://mirror.test/security
Suites: bookworm-security
Components: main
"""
RASPBIAN = """\
deb [ arch=armhf signed-by=/etc/apt/raspbian.gpg ] http://raspbian.test/raspbian/ bookworm main rpi # note
# deb http://commented.test/ bookworm main
deb-src http://raspbian.test/raspbian/ bookworm main
deb http://vendor.test/apt vendor-bookworm main
"""
BOOKWORM = {"ID": "debian", "VERSION_CODENAME": "bookworm"}


def test_debian_s_own_mirror_and_keyring_serve_trixie() -> None:
    (suite, stanza), *others = candidates(BOOKWORM, parse_stanzas(DEBIAN))
    assert suite == "trixie"
    assert stanza == (
        "Types: deb\nURIs: http://mirror.test/debian\nSuites: trixie\nComponents: main\n"
        "Signed-By: /usr/share/keyrings/debian.gpg\n"
    )
    assert others == []


def test_the_one_line_form_is_read_with_its_options() -> None:
    sources = list(parse_list(RASPBIAN))
    assert sources[0] == Source(
        "http://raspbian.test/raspbian/", ("bookworm",), ("main", "rpi"), "/etc/apt/raspbian.gpg"
    )
    release = {"ID": "raspbian", "ID_LIKE": "debian", "VERSION_CODENAME": "bookworm"}
    assert ["raspbian.test" in stanza for _, stanza in candidates(release, sources)] == [True]


def test_ubuntu_tries_its_newer_releases_on_its_own_mirror() -> None:
    release = os_release('ID=ubuntu\nID_LIKE=debian\nVERSION_CODENAME="noble"\nUBUNTU_CODENAME=noble\n# x\n')
    tries = candidates(release, parse_list("deb http://ubuntu.test/ubuntu noble main universe\n"))
    assert [suite for suite, _ in tries] == ["resolute", "questing"]


def test_a_keyring_within_a_stanza_is_kept() -> None:
    text = "Types: deb\nURIs: http://m.test/d\nSuites: bookworm\nComponents: main\nSigned-By:\n -----BEGIN\n .\n abc\n"
    ((_, stanza),) = candidates(BOOKWORM, parse_stanzas(text))
    assert stanza.endswith("Signed-By: \n -----BEGIN\n .\n abc\n") or stanza.endswith(
        "Signed-By:  -----BEGIN\n .\n abc\n"
    )


def test_a_machine_without_a_distribution_s_archive_has_no_candidates() -> None:
    assert candidates(BOOKWORM, parse_list("deb http://vendor.test/apt stable extras\n")) == []
    assert candidates({}, parse_list("deb http://vendor.test/apt ./\n")) == []


def test_sources_are_asked_of_the_same_archives_as_packages() -> None:
    packages = candidates(BOOKWORM, parse_stanzas(DEBIAN))
    sources = candidates(BOOKWORM, parse_stanzas(DEBIAN), "deb-src")
    assert [stanza for _, stanza in sources] == [stanza.replace("deb", "deb-src", 1) for _, stanza in packages]
