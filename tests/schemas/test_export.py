"""The exported contract is fresh, whole and readable by others."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from opjoule import schema_export
from opjoule.__main__ import main
from schemas import TOPICS, Message


@pytest.fixture(scope="module")
def document(repository: Path) -> dict[str, Any]:
    """The AsyncAPI document as it is in the repository."""
    parsed: dict[str, Any] = yaml.safe_load((repository / "schemas/asyncapi.yaml").read_text(encoding="utf-8"))
    return parsed


def resolve(document: dict[str, Any], reference: str) -> Any:
    """What a local reference of the document points to."""
    found: Any = document
    for part in reference.removeprefix("#/").split("/"):
        found = found[part]
    return found


def test_the_exported_files_are_fresh(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["schemas", "--check"]) == 0, capsys.readouterr().err


def test_a_stale_a_missing_and_a_foreign_file_are_named_and_put_right(tmp_path: Path) -> None:
    schema_export.write(tmp_path)
    assert schema_export.stale(tmp_path) == []
    (tmp_path / "asyncapi.yaml").write_text("asyncapi: 2.6.0\n")
    (tmp_path / "json/rejected.schema.json").unlink()
    (tmp_path / "json/old_message.schema.json").write_text("{}\n")
    wrong = ["asyncapi.yaml", "json/old_message.schema.json", "json/rejected.schema.json"]
    assert [path.relative_to(tmp_path).as_posix() for path in schema_export.stale(tmp_path)] == wrong
    schema_export.write(tmp_path)
    assert schema_export.stale(tmp_path) == []
    assert not (tmp_path / "json/old_message.schema.json").exists()


def test_the_check_names_each_stale_file_and_exits_with_1(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("schemas.__file__", str(tmp_path / "__init__.py"))
    assert main(["schemas", "--check"]) == 1
    said = capsys.readouterr().err.splitlines()
    assert len(said) == 1 + len({spec.message for spec in TOPICS.values()})
    assert all(line.startswith(f"opjoule schemas: {tmp_path}") and "is stale" in line for line in said)
    assert list(tmp_path.iterdir()) == []


def test_there_is_one_schema_file_per_message_and_no_other(repository: Path) -> None:
    there = {path.name for path in (repository / "schemas/json").iterdir()}
    assert there == {schema_export.file_name(spec.message) for spec in TOPICS.values()}
    assert "sample_batch.schema.json" in there


def test_a_schema_file_describes_what_is_written(repository: Path, examples: dict[type[Message], Message]) -> None:
    for message, example in examples.items():
        schema = json.loads((repository / "schemas/json" / schema_export.file_name(message)).read_text())
        written = json.loads(example.model_dump_json())
        assert set(written) == set(schema["properties"])
        assert set(schema.get("required", [])) <= set(written)
        assert schema.get("additionalProperties", True) is True


def test_every_topic_is_a_channel_with_the_parameters_in_its_braces(document: dict[str, Any]) -> None:
    assert document["asyncapi"] == "3.0.0"
    assert set(document["channels"]) == set(TOPICS)
    for kind, spec in TOPICS.items():
        channel = document["channels"][kind]
        assert channel["address"] == f"opjoule/v1/{{site}}/{spec.pattern}"
        assert set(channel["parameters"]) == set(re.findall(r"\{(\w+)\}", channel["address"]))
        assert list(channel["messages"]) == [spec.message.__name__]
        assert (channel.get("tags") == [{"name": "promised"}]) is spec.promised


def test_every_operation_says_sender_qos_and_retain(document: dict[str, Any]) -> None:
    assert len(document["operations"]) == len(TOPICS)
    for kind, spec in TOPICS.items():
        operation = document["operations"][f"{spec.sender}-sends-{kind}"]
        assert operation["action"] == "send"
        assert operation["bindings"]["mqtt"] == {"qos": spec.qos, "retain": spec.retain, "bindingVersion": "0.2.0"}
        assert resolve(document, operation["channel"]["$ref"]) is document["channels"][kind]


def test_every_reference_of_the_document_leads_somewhere(document: dict[str, Any], repository: Path) -> None:
    references = re.findall(r"\$ref: '?([^'\n]+)'?", yaml.safe_dump(document))
    assert len(references) > 3 * len(TOPICS)
    for reference in references:
        if reference.startswith("#/"):
            assert resolve(document, reference)
        else:
            json.loads((repository / "schemas" / reference).read_text(encoding="utf-8"))


def test_the_table_of_the_readme_is_the_contract(repository: Path) -> None:
    text = (repository / "schemas/README.md").read_text(encoding="utf-8")
    rows = [tuple(cell.strip() for cell in line.strip("|").split("|")) for line in text.splitlines() if "| `" in line]
    assert rows == [
        (
            f"`{spec.pattern}`",
            spec.sender,
            str(spec.qos),
            "yes" if spec.retain else "no",
            spec.message.__name__,
            "yes" if spec.promised else "no",
        )
        for spec in TOPICS.values()
    ]
