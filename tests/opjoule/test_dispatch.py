"""The `opjoule` command finds subcommands, and turns what goes wrong into one line and an exit status."""

import os
import signal
import subprocess
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Callable
from importlib import import_module
from importlib.metadata import version
from types import ModuleType

import pytest

from errors import ContractError, SettingsError
from opjoule import __main__ as command
from opjoule.__main__ import SUBCOMMANDS, Subcommand, main

Run = Callable[[Namespace], int]


@pytest.fixture
def tea(monkeypatch: pytest.MonkeyPatch) -> Callable[[Run], None]:
    """Adds the subcommand `tea`, which does what the test says."""

    def add(run: Run) -> None:
        module = ModuleType("opjoule.tea")
        vars(module).update(SUMMARY="Makes tea.", run=run, add_arguments=_sugar)
        monkeypatch.setitem(sys.modules, "opjoule.tea", module)
        monkeypatch.setitem(SUBCOMMANDS, "tea", Subcommand("opjoule.tea", "kitchen", "makes tea"))

    return add


def _sugar(parser: ArgumentParser) -> None:
    parser.add_argument("--sugar", type=int, default=0)


def _raises(error: BaseException) -> Run:
    def run(_: Namespace) -> int:
        raise error

    return run


def test_without_arguments_the_help_is_shown_and_the_status_is_2(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert all(f"  {name} " in said.err and each.summary in said.err for name, each in SUBCOMMANDS.items())


def test_help_and_version_end_with_status_0(capsys: pytest.CaptureFixture[str]) -> None:
    for flag in ("--help", "--version"):
        with pytest.raises(SystemExit) as ended:
            main([flag])
        assert ended.value.code == 0
    said = capsys.readouterr().out
    assert said.startswith("usage: opjoule")
    assert said.endswith(f"opjoule {version('opjoule')}\n")


def test_the_help_imports_no_subcommand_and_nothing_heavy() -> None:
    heavy = {"pydantic", "paho", "numpy", "rich", *(each.module for each in SUBCOMMANDS.values())}
    program = f"import sys, opjoule.__main__ as m; m.main([]); print(*({heavy} & set(sys.modules)))"
    shown = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert shown.stdout == "\n"


def test_an_unknown_subcommand_is_refused_with_the_known_ones(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["brew"])
    assert ended.value.code == 2
    assert "'brew'" in capsys.readouterr().err


def test_a_subcommand_gets_its_arguments_and_gives_the_status(tea: Callable[[Run], None]) -> None:
    tea(lambda args: int(args.sugar))
    assert main(["tea"]) == 0
    assert main(["tea", "--sugar", "3"]) == 3


def test_the_help_of_a_subcommand_is_its_own(tea: Callable[[Run], None], capsys: pytest.CaptureFixture[str]) -> None:
    tea(lambda args: 0)
    with pytest.raises(SystemExit) as ended:
        main(["tea", "--help"])
    assert ended.value.code == 0
    said = capsys.readouterr().out
    assert said.startswith("usage: opjoule tea ")
    assert "Makes tea." in said and "--sugar" in said


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (SettingsError("no kettle"), "opjoule tea: no kettle"),
        (ContractError("pot.csv: no column 'leaves'"), "opjoule tea: pot.csv: no column 'leaves'"),
        (
            ModuleNotFoundError("No module named 'teapot'", name="teapot.lid"),
            "opjoule tea needs teapot.lid: pip install 'opjoule[kitchen]'",
        ),
        (
            ModuleNotFoundError("No module named 'opjoule.pot'", name="opjoule.pot"),
            "opjoule tea: this installation lacks opjoule.pot: install opjoule anew",
        ),
    ],
)
def test_what_a_user_can_mend_gives_one_line_and_status_2(
    tea: Callable[[Run], None], capsys: pytest.CaptureFixture[str], error: Exception, line: str
) -> None:
    tea(_raises(error))
    assert main(["tea"]) == 2
    assert capsys.readouterr().err == line + "\n"


def test_an_error_of_our_own_is_not_hidden(tea: Callable[[Run], None]) -> None:
    tea(_raises(ValueError("a mistake in the program")))
    with pytest.raises(ValueError, match="a mistake"):
        main(["tea"])


def test_an_interrupt_ends_quietly_with_status_130(
    tea: Callable[[Run], None], capsys: pytest.CaptureFixture[str]
) -> None:
    tea(_raises(KeyboardInterrupt()))
    assert main(["tea"]) == 130
    assert capsys.readouterr() == ("", "")


def test_a_reader_that_goes_away_is_no_error() -> None:
    program = (
        "import sys, types; from opjoule import __main__ as m\n"
        "tea = types.ModuleType('tea'); tea.SUMMARY = ''; tea.add_arguments = lambda parser: None\n"
        "tea.run = lambda args: [print('x' * 1000) for _ in range(1000)] and 0\n"
        "sys.modules['tea'] = tea; m.SUBCOMMANDS['tea'] = m.Subcommand('tea', '', '')\n"
        "sys.exit(m.main(['tea']))"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as child:
        assert child.stdout is not None and child.stderr is not None
        child.stdout.read(1)
        child.stdout.close()
        assert child.stderr.read() == b""
        assert child.wait() == command.PIPE_CLOSED


INTERRUPTED_IN_AN_IMPORT = """
import os, signal, sys
class Slow:
    def find_spec(self, name, path=None, target=None):
        if name == sys.argv[1]:
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Slow())
sys.argv = ["opjoule", "results", "--help"]
from opjoule.entry import main
main()
"""


@pytest.mark.parametrize("module", ["opjoule.__main__", "errors", "opjoule.results", "aggregator.journal"])
def test_an_interrupt_while_something_is_imported_ends_without_a_word(module: str) -> None:
    program = INTERRUPTED_IN_AN_IMPORT.replace("sys.argv[1]", repr(module))
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, check=False)
    assert (ended.returncode, ended.stdout, ended.stderr) == (-signal.SIGINT, b"", b"")


def test_an_interrupt_that_the_shell_has_ignored_stays_ignored() -> None:
    program = f"import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)\n{INTERRUPTED_IN_AN_IMPORT}"
    program = program.replace("sys.argv[1]", "'errors'")
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, check=False)
    assert (ended.returncode, ended.stderr) == (0, b"") and ended.stdout.startswith(b"usage: opjoule results")


def test_a_character_that_the_output_cannot_show_is_no_error() -> None:
    program = (
        "import sys, types; from opjoule import __main__ as m\n"
        "tea = types.ModuleType('tea'); tea.SUMMARY = ''; tea.add_arguments = lambda parser: None\n"
        "tea.run = lambda args: print('34.5 \\u00b1 0.8 \\u2013')\n"
        "sys.modules['tea'] = tea; m.SUBCOMMANDS['tea'] = m.Subcommand('tea', '', '')\n"
        "sys.exit(m.main(['tea']))"
    )
    environment = {**os.environ, "PYTHONIOENCODING": "latin-1"}
    ended = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, check=False)
    assert (ended.stdout, ended.stderr) == (b"34.5 \xb1 0.8 ?\n", b"")


@pytest.mark.parametrize("name", SUBCOMMANDS)
def test_every_subcommand_has_its_module(name: str) -> None:
    module = import_module(SUBCOMMANDS[name].module)
    assert isinstance(module.SUMMARY, str) and "\n" not in module.SUMMARY
    module.add_arguments(ArgumentParser())
    assert callable(module.run)
