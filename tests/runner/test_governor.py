"""The CPU governor, on a machine made of files."""

import logging
from pathlib import Path

import pytest

from runner import governor as governor_module
from runner.governor import Governor
from runner.notes import read_note


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Two processors; the tenth has another governor."""
    for cpu, name in (("cpu0", "ondemand"), ("cpu10", "schedutil")):
        folder = tmp_path / f"root/sys/devices/system/cpu/{cpu}/cpufreq"
        folder.mkdir(parents=True)
        (folder / "scaling_governor").write_text(f"{name}\n")
    return tmp_path / "root"


def _governors(root: Path) -> list[str]:
    return [path.read_text().strip() for path in sorted(root.glob("sys/devices/system/cpu/*/cpufreq/scaling_governor"))]


def test_it_is_performance_inside_and_what_it_was_after_it(root: Path, tmp_path: Path) -> None:
    governor = Governor(tmp_path / "note", root=root)
    assert governor.name() == "ondemand"
    with governor.performance():
        assert _governors(root) == ["performance", "performance"]
        assert governor.name() == "performance"
    assert _governors(root) == ["ondemand", "schedutil"]
    assert not (tmp_path / "note").exists()


def test_it_is_restored_when_a_train_is_cut_off(root: Path, tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt), Governor(tmp_path / "note", root=root).performance():
        raise KeyboardInterrupt
    assert _governors(root) == ["ondemand", "schedutil"]


def test_what_a_killed_runner_changed_is_restored_at_the_next_start(root: Path, tmp_path: Path) -> None:
    killed = Governor(tmp_path / "note", root=root).performance()
    killed.__enter__()
    assert _governors(root) == ["performance", "performance"]
    Governor(tmp_path / "note", root=root).restore_left()
    assert _governors(root) == ["ondemand", "schedutil"]
    assert not (tmp_path / "note").exists()


def test_what_somebody_chose_after_the_kill_stays(root: Path, tmp_path: Path) -> None:
    killed = Governor(tmp_path / "note", root=root).performance()
    killed.__enter__()
    (root / "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor").write_text("powersave")
    Governor(tmp_path / "note", root=root).restore_left()
    assert _governors(root) == ["powersave", "schedutil"]


def test_what_to_restore_is_on_disk_before_anything_is_changed(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[str, list[str]]] = []

    def write_note(path: Path, text: str) -> None:
        path.write_text(text)
        seen.append((text, _governors(root)))

    monkeypatch.setattr(governor_module, "write_note", write_note)
    with Governor(tmp_path / "note", root=root).performance():
        pass
    assert seen == [("cpu0 ondemand\ncpu10 schedutil\n", ["ondemand", "schedutil"])]


def test_without_permission_one_line_says_so_and_trains_go_on(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(_self: Path, _text: str) -> int:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "write_text", refuse)
    governor = Governor(tmp_path / "note", root=root)
    for _ in range(3):
        with governor.performance():
            assert governor.name() == "ondemand"
    assert [record.message for record in caplog.records] == [
        "CPU governor stays ondemand (Permission denied): trains are measured with it"
    ]
    assert read_note(tmp_path / "note") == ""


def test_it_stays_as_it_is_when_that_was_asked_for(root: Path, tmp_path: Path) -> None:
    with Governor(tmp_path / "note", wanted=False, root=root).performance():
        assert _governors(root) == ["ondemand", "schedutil"]


def test_a_machine_without_governors_has_none(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    governor = Governor(tmp_path / "note", root=tmp_path)
    governor.restore_left()
    with governor.performance():
        assert governor.name() is None
    assert not caplog.records
