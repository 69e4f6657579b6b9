"""Writes the contract for readers in other languages: JSON Schema files and an AsyncAPI document."""

import argparse
import json
import re
from pathlib import Path
from typing import Any, get_args

import schemas
from opjoule.generated import Generated
from schemas import ROOT, TOPICS, Message, Operation
from schemas.operations import Backend
from schemas.status import Service
from schemas.topics import TopicSpec

SUMMARY = "Write schemas/json and schemas/asyncapi.yaml from the models, or check that they are fresh."

PARAMETERS: dict[str, dict[str, Any]] = {
    "site": {"description": "the installation"},
    "dut": {"description": "the device under test"},
    "backend": {"description": "how the operation ran", "enum": list(get_args(Backend))},
    "operation": {"description": "what ran", "enum": list(get_args(Operation))},
    "slug": {"description": "the parameter set in lower case, every other character a hyphen"},
    "variant": {"description": "the variant in lower case, every other character a hyphen; `none` where it is empty"},
    "service": {"description": "the kind of service", "enum": list(get_args(Service))},
    "instance": {"description": "the name of one process of a service"},
}
"""What stands in each level of a topic that has braces."""

SENDERS = {"each": "each service"}
SUFFIX = ".schema.json"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of `opjoule schemas`."""
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 and name the files that are stale")


def run(args: argparse.Namespace) -> int:
    """Write the files, or name the stale ones."""
    return FILES.run(Path(schemas.__file__).parent, args.check)


def exported() -> dict[str, str]:
    """Path below `schemas/` and text of every exported file."""
    messages = {spec.message for spec in TOPICS.values()}
    files = {f"json/{file_name(message)}": json_schema(message) for message in messages}
    return {**files, "asyncapi.yaml": asyncapi_yaml()}


def file_name(message: type[Message]) -> str:
    """Name of the file with the schema of a message: `SampleBatch` is in `sample_batch.schema.json`."""
    return re.sub(r"(?<!^)(?=[A-Z])", "_", message.__name__).lower() + SUFFIX


def json_schema(message: type[Message]) -> str:
    """What a reader may rely on and a sender must send, as JSON Schema 2020-12."""
    schema = {"$schema": "https://json-schema.org/draft/2020-12/schema", **message.model_json_schema()}
    return json.dumps(schema, indent=2, sort_keys=True, ensure_ascii=False) + "\n"


def asyncapi_yaml() -> str:
    """The AsyncAPI document as text."""
    import yaml  # noqa: PLC0415 - a development tool, needed for nothing else

    text: str = yaml.safe_dump(asyncapi(), sort_keys=False, allow_unicode=True, width=110)
    return "# Written by `opjoule schemas` from schemas/topics.py: change that, not this.\n" + text


def asyncapi() -> dict[str, Any]:
    """The topics as an AsyncAPI 3.0 document, seen from each sender."""
    messages = sorted({spec.message for spec in TOPICS.values()}, key=lambda message: message.__name__)
    return {
        "asyncapi": "3.0.0",
        "info": {
            "title": "opjoule",
            "version": f"{ROOT.partition('/')[2].removeprefix('v')}.0.0",
            "description": "Energy per cryptographic operation, MQTT 5, JSON. schemas/README.md has the rules.",
            "license": {"name": "Apache-2.0"},
            "tags": [{"name": "promised", "description": "a change that breaks a reader gets a new topic root"}],
        },
        "defaultContentType": "application/json",
        "channels": {kind: _channel(spec) for kind, spec in TOPICS.items()},
        "operations": {_operation_name(spec): _operation(spec) for spec in TOPICS.values()},
        "components": {
            "messages": {message.__name__: _message(message) for message in messages},
            "parameters": PARAMETERS,
        },
    }


def _channel(spec: TopicSpec) -> dict[str, Any]:
    address = f"{ROOT}/{{site}}/{spec.pattern}"
    name = spec.message.__name__
    channel: dict[str, Any] = {
        "address": address,
        "messages": {name: {"$ref": f"#/components/messages/{name}"}},
        "parameters": {
            level: {"$ref": f"#/components/parameters/{level}"} for level in re.findall(r"\{(\w+)\}", address)
        },
    }
    if spec.promised:
        channel["tags"] = [{"name": "promised"}]
    return channel


def _operation_name(spec: TopicSpec) -> str:
    return f"{spec.sender}-sends-{spec.kind}"


def _operation(spec: TopicSpec) -> dict[str, Any]:
    return {
        "action": "send",
        "summary": f"{SENDERS.get(spec.sender, spec.sender)} sends {spec.message.__name__}",
        "channel": {"$ref": f"#/channels/{spec.kind}"},
        "messages": [{"$ref": f"#/channels/{spec.kind}/messages/{spec.message.__name__}"}],
        "bindings": {"mqtt": {"qos": spec.qos, "retain": spec.retain, "bindingVersion": "0.2.0"}},
    }


def _message(message: type[Message]) -> dict[str, Any]:
    return {
        "name": message.__name__,
        "summary": " ".join((message.__doc__ or "").partition("\n\n")[0].split()),
        "payload": {"$ref": f"./json/{file_name(message)}"},
    }


FILES = Generated("opjoule schemas", (f"json/*{SUFFIX}",), exported)
write, stale = FILES.write, FILES.stale
