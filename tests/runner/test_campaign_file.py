"""Campaign files: what is wrong is told by its line, with what was meant."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from errors import SettingsError
from runner.campaign_file import Campaign, Measure, parse_campaign
from runner.campaign_text import line_of
from runner.expansion import expand
from runner.plan import WholeCatalogue

MEASURE = '\n[[measure]]\noperations = "sign"\nsets = "ML-DSA-65"\n'

PIECES = [
    *("\n", "\n", "\n", "[[measure]]\n", "[measure]\n", "[x]\n", "'", '"', '"""', "=", " = ", "[", "]", "{", "}", "#"),
    *(", ", "1", "-1", "0.5", "nan", "true", "2020-01-01", '"*"', '"sign"', '"ML-DSA-65"', '"u95 <= 2 %"', '"lib"'),
    *(f"\n{key} = " for key in (*Campaign.model_fields, *Measure.model_fields)),
    'items = ["sham"]\n',
    MEASURE,
]


def test_a_campaign_says_what_to_measure_and_the_rest_has_defaults() -> None:
    campaign = parse_campaign(MEASURE, "mine.toml")
    assert campaign.measure == (Measure(operations=("sign",), sets=("ML-DSA-65",)),)
    assert (campaign.name, campaign.train_s, campaign.rounds, campaign.order) == ("mine", 60.0, 1, "random")
    assert campaign.target is None


def test_the_name_in_the_file_is_its_name() -> None:
    assert parse_campaign('name = "nightly"\nitems = ["sham"]', "mine.toml").name == "nightly"


@pytest.mark.parametrize(("text", "target"), [("u95 <= 2 %", 0.02), ("u95<=0.5%", 0.005), (" u95 <= 15.25 % ", 0.1525)])
def test_the_target_is_a_share_of_the_mean(text: str, target: float) -> None:
    assert parse_campaign(f'until = "{text}"\nmost_s = 100{MEASURE}', "c").target == pytest.approx(target)


def test_a_campaign_does_not_change() -> None:
    campaign = parse_campaign(MEASURE, "c")
    with pytest.raises(ValidationError):
        campaign.rounds = 2


def test_a_copy_with_other_settings_still_knows_its_lines() -> None:
    campaign = parse_campaign(MEASURE, "c.toml").model_copy(update={"rounds": 0})
    assert (campaign.rounds, campaign.source.at(("measure", 0, "sets"))) == (0, "c.toml, line 4")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (f"\n\ntrian_s = 60{MEASURE}", "c.toml, line 3: there is no key trian_s: did you mean train_s?"),
        (f"train_s = 0.5{MEASURE}", "c.toml, line 1: train_s is 0.5: input should be greater than or equal to 1"),
        (f"rounds = 1.5{MEASURE}", "c.toml, line 1: rounds is 1.5: input should be a valid integer"),
        (f'order = "randm"{MEASURE}', "c.toml, line 1: order is 'randm': did you mean random?"),
        (f'preset = "tiny"{MEASURE}', "c.toml, line 1: preset is 'tiny': "),
        (f'until = "2 %"{MEASURE}', "c.toml, line 1: until is '2 %': write it as \"u95 <= 2 %\""),
        (f'# x\nuntil = "u95 <= 2 %"{MEASURE}', "c.toml, line 2: until: needs a maximum: most_trains or most_s"),
        (f'until = "u95 <= 2 %"\nmost_s = 9\nleast_trains = 9{MEASURE}', "c.toml, line 3: least_trains is 9: "),
        (f'until = "u95 <= 2 %"\nmost_s = 9\nrounds = 2{MEASURE}', "c.toml, line 3: rounds: until says when"),
        (
            f'until = "u95 <= 2 %"\nmost_trains = 11\nleast_trains = 12{MEASURE}',
            "c.toml, line 2: most_trains: is less than least_trains",
        ),
        (f"most_trains = 20{MEASURE}", "c.toml, line 1: most_trains: is for campaigns with until"),
        (f"every_s = 30{MEASURE}", "c.toml, line 1: every_s: trains cannot start faster"),
        (f"sham_every = 0{MEASURE}", "c.toml, line 1: sham_every: at least one sham"),
        (f'\nprocedure = "as-published"{MEASURE}', 'c.toml, line 2: procedure: "as-published" needs study'),
        (f'until = "u95 <= 0 %"\nmost_s = 9{MEASURE}', "c.toml, line 1: until: is never met"),
        (f'until = "u95 <= 0.00 %"\nmost_s = 9{MEASURE}', "c.toml, line 1: until: is never met"),
        (f"rounds = {10**30}{MEASURE}", "c.toml, line 1: rounds is 1000"),
        (f"message_bytes = {2**26 + 1}{MEASURE}", "c.toml, line 1: message_bytes is 67108865: "),
        (f"{MEASURE}message_bytes = [100, {2**28}]", "c.toml, line 5: message_bytes is 268435456: "),
        (f"study = 2{MEASURE}", 'c.toml, line 1: study: is for procedure "as-published"'),
        (f'procedure = "as-published"\nstudy = 3{MEASURE}', "c.toml, line 2: study is 3: "),
        ("train_s = 60\n", "c.toml: measure: nothing to measure"),
        (f"{MEASURE}{MEASURE}sts = 1\n", "c.toml, line 9: there is no key sts: did you mean sets?"),
        (f"{MEASURE}train_s = 60\n", "c.toml, line 5: train_s belongs above the first [[measure]]"),
        ('sets = "*"\n', "c.toml, line 1: sets belongs in a [[measure]]"),
        (f'{MEASURE}\n[[measure]]\noperations = "sign"\n', "c.toml, line 6: sets is missing"),
        ('[[measure]]\nsets = "*"\noperations = [\n"sign",\n"sing"]', "c.toml, line 5: operations is 'sing': did you"),
        (
            '[[measure]]\nsets = "*"\noperations = ["sham"]',
            "c.toml, line 3: operations is 'sham': null and sham trains",
        ),
        (f'{MEASURE}backends = "lob"', "c.toml, line 5: backends is 'lob': did you mean lib?"),
        (f'{MEASURE}forms = ["privat"]', "c.toml, line 5: forms is 'privat': did you mean private?"),
        (f"{MEASURE}message_bytes = [100, 0]", "c.toml, line 5: message_bytes is 0: "),
        (f'{MEASURE}capability_masks = "PATH=x"', "c.toml, line 5: capability_masks is 'PATH=x': "),
        (f'{MEASURE}certificates = "RSA-2048"', "c.toml, line 5: certificates are for the operation handshake"),
        ('[[measure]]\noperations = "handshake"\nsets = "*"', "c.toml, line 1: handshake needs certificates"),
        ('train_s = "60"\n', "c.toml, line 1: train_s is '60': input should be a valid number"),
        ("most_s = true", "c.toml, line 1: most_s is True: "),
        ("gap_s = nan", "c.toml, line 1: gap_s is nan: input should be"),
        ("items = 3", "c.toml, line 1: items is 3: input should be a valid string"),
        ('[measure]\nsets = "*"', "c.toml, line 1: write [[measure]] with two brackets"),
        ("measure = [3]", "c.toml, line 1: write [[measure]] with two brackets"),
        (
            f'description = "{"x" * 2000}"',
            "c.toml, line 1: description is 'xxxxxxxxxxxx...xxxxxxxxxxxxx': string should",
        ),
        ("[measures]\nx = 1", "c.toml, line 1: there is no key measures: did you mean measure?"),
        ('"a\\nb" = 1\n', "c.toml: there is no key 'a\\nb': "),
        (f"a = {'[' * 50_000}", "c.toml: not TOML for a campaign: nested too deeply"),
        (f"seed = {'9' * 5000}", "c.toml: not TOML: "),
        (f"seed = 9007199254740992{MEASURE}", "c.toml, line 1: seed is 9007199254740992: "),
        ("train_s = = 3", "c.toml: not TOML: Invalid value (at line 1, column 11)"),
    ],
)
def test_what_is_wrong_is_told_in_one_line_that_names_its_line(text: str, said: str) -> None:
    with pytest.raises(SettingsError) as caught:
        parse_campaign(text, "c.toml")
    assert str(caught.value).startswith(said)
    assert "\n" not in str(caught.value)


@given(st.lists(st.sampled_from(PIECES), max_size=30))
def test_whatever_a_file_holds_it_is_a_campaign_or_one_line(pieces: list[str]) -> None:
    try:
        campaign = parse_campaign("".join(pieces), "c.toml")
        expand(campaign, WholeCatalogue())
    except SettingsError as error:
        assert str(error).startswith("c.toml")
        assert "\n" not in str(error)


def test_a_key_in_a_long_string_or_a_comment_is_no_key() -> None:
    text = 'description = """\ntrain_s = 3\n"""\n# train_s = 4\ntrain_s = 5\n'
    assert line_of(text, ("train_s",)) == 5


def test_a_key_that_is_not_there_has_no_line() -> None:
    assert line_of("a = 1\n", ("b",)) is None
    assert line_of("", ("b",)) is None


def test_every_key_has_a_default_but_what_to_measure() -> None:
    assert not [name for name, field in Campaign.model_fields.items() if field.is_required()]
    assert [name for name, field in Measure.model_fields.items() if field.is_required()] == ["operations", "sets"]
