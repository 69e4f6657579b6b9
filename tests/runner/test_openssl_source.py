"""Where the source archive of OpenSSL comes from: the project's release, then the machine's apt sources."""

import hashlib
import io
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

import pytest

from errors import SettingsError
from runner.openssl.progress import Progress
from runner.openssl.source import RELEASE, obtain_source

ARCHIVE = b"the archive"
NOBODY_LISTENS = "http://127.0.0.1:9/openssl.tar.gz"


class _Release(BaseHTTPRequestHandler):
    body = ARCHIVE
    status = 200

    def do_GET(self) -> None:
        self.send_response(self.status)
        self.send_header("Content-Length", str(len(self.body)))
        self.end_headers()
        self.wfile.write(self.body)

    def log_message(self, *_: object) -> None:
        """Nothing."""


@pytest.fixture
def release(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The address of a server that gives the archive; its checksum is the pinned one."""
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setattr("runner.openssl.source.SHA256", hashlib.sha256(ARCHIVE).hexdigest())
    with HTTPServer(("127.0.0.1", 0), _Release) as server:
        thread = Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/openssl.tar.gz"
        server.shutdown()
        thread.join()


@pytest.fixture
def debian(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A root with apt sources, and programs on PATH that answer as apt does for an archive with two sources."""
    root, programs = tmp_path / "root", tmp_path / "programs"
    (root / "etc" / "apt").mkdir(parents=True)
    (root / "etc" / "os-release").write_text("ID=debian\nVERSION_CODENAME=bookworm\n")
    (root / "etc" / "apt" / "sources.list").write_text("deb http://archive.test/debian bookworm main\n")
    programs.mkdir()
    get = (
        'case "$*" in *update) grep -q "^Types: deb-src" "${2%apt.conf}archive.sources" || exit 1;;\n'
        f'*" source --download-only openssl={RELEASE}-1~deb13u2")\n'
        f'printf "the archive" > openssl_{RELEASE}.orig.tar.gz;;\n'
        '*) echo "E: $*" >&2; exit 1;; esac'
    )
    show = (
        f"printf 'Package: openssl\\nVersion: 3.5.9-1~deb13u1\\n\\nPackage: openssl\\nVersion: {RELEASE}-1~deb13u2\\n'"
    )
    for name, text in (("apt-get", get), ("apt-cache", show)):
        (programs / name).write_text(f"#!/bin/sh\n{text}\n")
        (programs / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:/usr/bin:/bin")
    return root


def _obtain(folder: Path, url: str, root: Path) -> bytes:
    return obtain_source(folder, None, Progress(io.StringIO()), url, root).read_bytes()


def test_the_project_s_release_comes_first(tmp_path: Path, release: str) -> None:
    assert _obtain(tmp_path, release, tmp_path / "no-root") == ARCHIVE


@pytest.mark.parametrize("wrong", [{"status": 404}, {"body": b"a page that asks to log in"}])
def test_where_the_release_does_not_serve_apt_sources_do(
    tmp_path: Path, release: str, debian: Path, monkeypatch: pytest.MonkeyPatch, wrong: dict[str, object]
) -> None:
    for name, value in wrong.items():
        monkeypatch.setattr(_Release, name, value)
    assert _obtain(tmp_path, release, debian) == ARCHIVE


def test_an_archive_cut_off_on_the_way_is_not_taken(
    tmp_path: Path, release: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_Release, "body", ARCHIVE[:-1])
    with pytest.raises(SettingsError, match=f"the project's release: openssl-{RELEASE}.tar.gz is not OpenSSL"):
        _obtain(tmp_path, release, tmp_path / "no-root")


def test_where_nothing_serves_one_line_says_what_to_fetch_and_where_to_name_it(
    tmp_path: Path, release: str, debian: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("runner.openssl.source.SHA256", "0" * 64)
    with pytest.raises(SettingsError) as caught:
        _obtain(tmp_path, NOBODY_LISTENS, debian)
    line = str(caught.value)
    assert "\n" not in line
    assert line.startswith(f"the source of OpenSSL {RELEASE} cannot be had: the project's release: [Errno 111]")
    assert "this machine's apt sources: " in line
    assert line.endswith("elsewhere and name the file in OPJOULE_OPENSSL_SOURCE")


def test_an_archive_without_the_pinned_release_says_so(
    tmp_path: Path, release: str, debian: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("runner.openssl.source.RELEASE", "3.5.8")
    with pytest.raises(SettingsError, match=r"trixie: the archive has no source of OpenSSL 3\.5\.8"):
        _obtain(tmp_path, NOBODY_LISTENS, debian)


def test_a_named_file_is_taken_and_no_other(tmp_path: Path, release: str) -> None:
    (tmp_path / "mine").write_bytes(ARCHIVE)
    progress = Progress(io.StringIO())
    assert obtain_source(tmp_path, str(tmp_path / "mine"), progress, release) == tmp_path / "mine"
    with pytest.raises(SettingsError, match="OPJOULE_OPENSSL_SOURCE: /no/such cannot be read: No such file"):
        obtain_source(tmp_path, "/no/such", progress, release)
