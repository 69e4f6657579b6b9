"""The message that is signed: as long as was asked for, or one line where this machine has no room for it."""

import random
from collections.abc import Callable
from pathlib import Path

import pytest
from pydantic import ValidationError

from errors import SettingsError
from runner import message
from runner.job import MOST_MESSAGE_BYTES
from runner.message import empty_message, hold_against_memory, memory_bytes, message_of_file, random_message
from runner.openssl import OpenSsl
from runner.operations import prepare_work
from runner.orders import own_campaign
from runner.settings import RunnerSettings
from tests.runner.conftest import MakeBench

PI_ZERO_BYTES = 439_000 * 1024


def test_the_longest_message_that_a_setting_allows_can_be_made() -> None:
    assert len(random_message(MOST_MESSAGE_BYTES, 1)) == MOST_MESSAGE_BYTES
    with pytest.raises(OverflowError):
        random.Random(1).randbytes(4 * MOST_MESSAGE_BYTES)  # what a longer one came to


def test_the_same_seed_gives_the_same_message() -> None:
    assert random_message(100, 1) == random_message(100, 1) != random_message(100, 2)


def test_a_message_takes_a_sixteenth_of_the_memory_at_most() -> None:
    hold_against_memory(PI_ZERO_BYTES // 16, PI_ZERO_BYTES)
    with pytest.raises(SettingsError, match="too long for the memory of this machine: 28096000 at most"):
        hold_against_memory(MOST_MESSAGE_BYTES, PI_ZERO_BYTES)


def test_a_machine_that_does_not_say_its_memory_has_the_general_limit() -> None:
    hold_against_memory(MOST_MESSAGE_BYTES, None)
    with pytest.raises(SettingsError, match="67108864 at most"):
        hold_against_memory(MOST_MESSAGE_BYTES + 1, None)


def test_this_machine_says_how_much_memory_it_has() -> None:
    found = memory_bytes()
    assert found is not None and found > 2**26


def test_every_kind_of_message_is_held_against_the_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(message, "memory_bytes", lambda: 16 * 9)
    (tmp_path / "file").write_bytes(bytes(10))
    ways: tuple[Callable[[], bytes], ...] = (
        lambda: random_message(10, 1),
        lambda: empty_message(10),
        lambda: message_of_file(tmp_path / "file", 10),
    )
    for make in ways:
        with pytest.raises(SettingsError, match="too long for the memory of this machine: 9 at most"):
            make()


def test_a_null_train_of_a_message_of_ten_digits_is_refused_for_its_length_and_not_for_its_name(
    make_bench: MakeBench, system_openssl: OpenSsl
) -> None:
    bench = make_bench(system_openssl, processes=1)
    variant = "processes=1,reads=key+message,message_bytes=1000000000"
    bench = type(bench)(bench.cli, bench.folder, type(bench.job)("null", null_variant=variant), None, 1)
    with pytest.raises(SettingsError, match="a message of 1000000000 bytes is too long"):
        prepare_work(bench)


@pytest.mark.parametrize("setting", [{"message_bytes": MOST_MESSAGE_BYTES + 1}, {"rounds": 10**30}])
def test_a_setting_beyond_its_limit_is_refused(setting: dict[str, int]) -> None:
    with pytest.raises(ValidationError, match="less than or equal to"):
        RunnerSettings.model_validate({"dut": "pi4", **setting})


def test_a_message_file_that_is_too_long_is_refused_at_the_start(tmp_path: Path) -> None:
    path = tmp_path / "long"
    with path.open("wb") as file:
        file.truncate(MOST_MESSAGE_BYTES + 1)
    settings = RunnerSettings.model_validate({"dut": "pi4", "plan": "sham", "message_file": path})
    with pytest.raises(SettingsError, match="67108865 bytes, not 1 to 67108864"):
        own_campaign(settings)


def test_rounds_over_a_campaign_with_until_are_refused_and_not_ignored(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text('until = "u95 <= 2 %"\nmost_trains = 20\nitems = ["sham"]\n')
    settings = RunnerSettings.model_validate({"dut": "pi4", "plan": str(path), "rounds": 3})
    with pytest.raises(SettingsError, match=r"--rounds \(OPJOULE_ROUNDS\) is 3, and the until of mine says when"):
        own_campaign(settings)
    assert own_campaign(settings.model_copy(update={"rounds": None})) is not None
