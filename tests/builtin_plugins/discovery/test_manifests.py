from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.builtin_plugins.discovery.folders import manifest, problems, write

from hookgate.builtin_plugins.discovery.sources.manifests import DeclaredCapability, read_manifest
from hookgate.core.domain.descriptors import CapabilityDetail, Flags
from hookgate.kit.content.files import CONTENT_BYTES
from hookgate.kit.content.problems import ContentError


def read(path: Path) -> DeclaredCapability:
    reading = read_manifest(path)
    assert problems(reading) == []
    (declared,) = reading.found
    return declared


def detail(path: Path) -> CapabilityDetail:
    load = read(path).row.load
    assert load is not None
    return load()


def wrong(path: Path) -> str:
    """Return the only problem of a manifest that is passed over."""
    reading = read_manifest(path)
    assert reading.found == ()
    (problem,) = problems(reading)
    return problem


def test_the_documented_manifest_is_read(tmp_path: Path) -> None:
    path = write(
        tmp_path / "my-custom-tool" / "CAPABILITY.yaml",
        """\
        id: tool:my-custom-tool
        kind: tool
        name: my-custom-tool
        displayName: My Custom Tool
        description: Searches a proprietary API for internal documents
        category: information
        tags: [search, internal, documents]
        requiredSecrets: [INTERNAL_API_KEY]
        hasSideEffects: false
        inputSchema: { type: object, properties: { query: { type: string } } }
        skillContent: ./SKILL.md
        """,
    )
    write(path.parent / "SKILL.md", "# How to search\n")
    row = read(path).row
    assert (row.id, row.kind, row.name) == ("tool:my-custom-tool", "tool", "my-custom-tool")
    assert row.display_name == "My Custom Tool"
    assert row.description == "Searches a proprietary API for internal documents"
    assert row.category == "information"
    assert row.tags == ("search", "internal", "documents")
    assert row.required_secrets == ("INTERNAL_API_KEY",)
    assert row.parameters == ("query",)
    assert row.has_side_effects is False
    assert row.source_ref == str(path)
    found = detail(path)
    assert found.content == "# How to search"
    assert found.schema == {"type": "object", "properties": {"query": {"type": "string"}}}


def test_three_keys_are_enough(tmp_path: Path) -> None:
    row = read(manifest(tmp_path / "pdf_forms-fill")).row
    assert row.id == "skill:pdf_forms-fill"
    assert row.display_name == "Pdf Forms Fill"
    assert row.flags == Flags()


def test_both_spellings_are_read_but_not_together(tmp_path: Path) -> None:
    row = read(manifest(tmp_path / "a", "required_tools: [clock, tool:clock]\n")).row
    assert row.required_tools == ("clock",)
    both = manifest(tmp_path / "b", "requiredTools: [clock]\nrequired_tools: [clock]\n")
    assert f"{both}:5:1: `required_tools`: found the key in both its spellings" in wrong(both)


def test_flags_are_read_in_three_states(tmp_path: Path) -> None:
    more = "flags: {sendsExternally: true, executes_privileged: false, readsExternalData: null}\n"
    row = read(manifest(tmp_path / "a", more)).row
    assert row.flags == Flags(sends_externally=True, executes_privileged=False)
    assert row.has_side_effects is True
    assert "unknown flag 'sends'" in wrong(manifest(tmp_path / "b", "flags: {sends: true}\n"))


def test_an_unknown_key_is_a_warning_that_names_the_nearest_one(tmp_path: Path) -> None:
    path = manifest(tmp_path / "a", "requiredSecret: [X]\nzzz: 1\n")
    reading = read_manifest(path)
    assert len(reading.found) == 1
    assert [problem.severity for problem in reading.problems] == ["warning", "warning"]
    assert f"{path}:4:1: `requiredSecret`" in problems(reading)[0]
    assert reading.problems[0].nearest == "requiredSecrets"
    assert "one of `category`, `description`" in problems(reading)[1]


@pytest.mark.parametrize(
    ("more", "line", "what"),
    [
        ("id: [x]\n", 4, "expected an id"),
        ("id: 'a b'\n", 4, "expected an id"),
        ("id: tool:other\n", 4, "expected skill:NAME"),
        ("id: card:other\n", 4, "does not begin with the name of a kind"),
        ("displayName: 1\n", 4, "expected text"),
        ('displayName: "a\\u202eb"\n', 4, "the character \\u202e"),
        ('description2: x\ncategory: "a\\nb"\n', 5, "on one line"),
        ("category: '{{system}}'\n", 4, "words of letters and digits"),
        ("tags: search\n", 4, "expected a list"),
        ("tags: [a, 1]\n", 4, "`tags[1]`: found 1"),
        ("tags:\n- a\n- '<|im_start|>'\n", 6, "`tags[1]`"),
        (f"tags: {[f't{n}' for n in range(65)]}\n", 4, "65 entries"),
        ("requiredSecrets: ['../x']\n", 4, "the name of a secret"),
        ("requiredTools: {a: b}\n", 4, "expected a list"),
        ("hasSideEffects: no\n", 4, "expected true or false"),
        ("flags: [a]\n", 4, "a mapping of flags"),
        ("inputSchema: 7\n", 4, "the name of a file"),
        ("inputSchema: {type: array}\n", 4, "expected `object`"),
        ("inputSchema: {type: object, properties: {a: {$ref: 'http://x/y'}}}\n", 4, "cannot be"),
        ("inputSchema: {type: object, properties: 3}\n", 4, "cannot be used"),
        ("skillContent: gone.md\n", None, "gone.md"),
        ("name: again\n", 4, "a second time"),
    ],
)
def test_a_wrong_value_costs_the_row_and_is_named(
    tmp_path: Path, more: str, line: int | None, what: str
) -> None:
    path = manifest(tmp_path / "NAME", more)
    reading = read_manifest(path)
    (problem,) = [one for one in reading.problems if one.severity == "error"]
    assert reading.found == ()
    assert problem.line == line
    assert what in str(problem)


def test_everything_that_is_wrong_is_named_at_once(tmp_path: Path) -> None:
    path = write(tmp_path / "a" / "CAPABILITY.yaml", "name: 'a b'\nkind: toll\ntags: x\n")
    text = "\n".join(problems(read_manifest(path)))
    assert "`description`: found nothing" in text
    assert "expected a name" in text
    assert "expected one of tool, skill, extension, channel" in text
    assert "expected a list" in text


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("", "found nothing"),
        ("- a\n", "expected keys and values"),
        ("just text", "expected keys and values"),
        ("a: [", "no YAML"),
    ],
)
def test_a_file_without_keys_is_named(tmp_path: Path, text: str, what: str) -> None:
    assert what in wrong(write(tmp_path / "CAPABILITY.yaml", text))


def test_bytes_that_are_no_text_are_named_with_their_line(tmp_path: Path) -> None:
    path = tmp_path / "CAPABILITY.yaml"
    path.write_bytes(b"name: a\nkind: \xff")
    assert wrong(path).startswith(f"{path}:2: found a byte that is not UTF-8 (0xff)")


def test_a_byte_order_mark_and_crlf_are_read(tmp_path: Path) -> None:
    path = tmp_path / "a" / "CAPABILITY.yaml"
    path.parent.mkdir()
    path.write_bytes(
        b"\xef\xbb\xbfname: a\r\nkind: skill\r\ndescription: >-\r\n  two\r\n  lines\r\n"
    )
    assert read(path).row.description == "two lines"


# -- the files beside it ---------------------------------------------------------------


def test_what_stands_beside_it_is_taken_unless_a_key_names_another(tmp_path: Path) -> None:
    schema = '{"type": "object", "properties": {"b": {}, "a": {}}}'
    own = manifest(
        tmp_path / "own", SKILL_md="---\nname: x\n---\nbody", schema_json=schema, kind="tool"
    )
    assert detail(own) == CapabilityDetail(
        schema={"type": "object", "properties": {"b": {}, "a": {}}}, content="body"
    )
    assert read(own).row.parameters == ("b", "a")
    named = manifest(
        tmp_path / "named",
        "inputSchema: {type: object, properties: {c: {}}}\nskillContent: docs/other.md\n",
        SKILL_md="default",
        schema_json=schema,
    )
    write(named.parent / "docs" / "other.md", "other")
    assert detail(named).content == "other"
    assert read(named).row.parameters == ("c",)
    file = manifest(tmp_path / "file", "input_schema: in.json\n", in_json='{"type": "object"}')
    assert detail(file).schema == {"type": "object"}


@pytest.mark.parametrize("key", ["skillContent", "inputSchema"])
@pytest.mark.parametrize("name", ["../secret.md", "/etc/hostname", "a/../../secret.md", "link.md"])
def test_no_path_leads_out_of_the_folder(tmp_path: Path, key: str, name: str) -> None:
    write(tmp_path / "secret.md", "canary")
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "link.md").symlink_to("../secret.md")
    path = manifest(tmp_path / "own", f"{key}: {name}\n")
    message = wrong(path)
    assert message.startswith(f"{path}:4: `{key.replace('C', '_c').replace('S', '_s')}`")
    assert "leads out of" in message


def test_a_default_file_that_is_a_link_to_elsewhere_is_refused(tmp_path: Path) -> None:
    write(tmp_path / "secret.md", "canary")
    path = manifest(tmp_path / "own")
    (path.parent / "SKILL.md").symlink_to("../secret.md")
    assert "leads out of" in wrong(path)


def test_a_link_within_the_folder_is_followed(tmp_path: Path) -> None:
    path = manifest(tmp_path / "own", real_md="body")
    (path.parent / "SKILL.md").symlink_to("real.md")
    assert detail(path).content == "body"


def test_links_in_a_circle_are_named(tmp_path: Path) -> None:
    path = manifest(tmp_path / "own")
    (path.parent / "SKILL.md").symlink_to("SKILL.md")
    assert "expected" in wrong(path)


def test_a_link_to_outside_is_refused_when_it_is_loaded_too(tmp_path: Path) -> None:
    write(tmp_path / "secret.md", "canary")
    path = manifest(tmp_path / "own", SKILL_md="mine")
    load = read(path).row.load
    (path.parent / "SKILL.md").unlink()
    (path.parent / "SKILL.md").symlink_to("../secret.md")
    assert load is not None
    with pytest.raises(ContentError, match="leads out of"):
        load()


def test_a_manifest_that_is_a_link_to_elsewhere_is_refused(tmp_path: Path) -> None:
    real = manifest(tmp_path / "real")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "CAPABILITY.yaml").symlink_to(real)
    assert "leads out of" in wrong(tmp_path / "other" / "CAPABILITY.yaml")


@pytest.mark.parametrize("name", ["CAPABILITY.yaml", "SKILL.md", "schema.json"])
def test_a_named_pipe_holds_nobody(tmp_path: Path, name: str) -> None:
    path = manifest(tmp_path / "own")
    (path.parent / name).unlink(missing_ok=True)
    os.mkfifo(path.parent / name)
    assert "expected a regular file" in wrong(path)


@pytest.mark.parametrize("name", ["SKILL.md", "schema.json"])
def test_a_folder_in_the_place_of_a_file_is_named(tmp_path: Path, name: str) -> None:
    path = manifest(tmp_path / "own")
    (path.parent / name).mkdir()
    assert "expected a regular file" in wrong(path)


@pytest.mark.parametrize(
    ("name", "limit"),
    [("CAPABILITY.yaml", 65_536), ("SKILL.md", CONTENT_BYTES), ("schema.json", CONTENT_BYTES)],
)
def test_a_file_has_a_largest_size(tmp_path: Path, name: str, limit: int) -> None:
    path = manifest(tmp_path / "own")
    (path.parent / name).write_bytes(b" " * (limit + 1))
    assert f"at most {limit}" in wrong(path)


@pytest.mark.parametrize("text", ["", "[]", "{", '{"a": 1, "a": 2}', "NaN", '{"type": "string"}'])
def test_a_schema_file_that_is_none_is_named(tmp_path: Path, text: str) -> None:
    path = manifest(tmp_path / "own", schema_json=text)
    assert str(path.parent / "schema.json") in wrong(path)


def test_content_is_read_when_it_is_asked_for(tmp_path: Path) -> None:
    path = manifest(tmp_path / "own", SKILL_md="before")
    load = read(path).row.load
    write(path.parent / "SKILL.md", "after")
    assert load is not None
    assert load().content == "after"
