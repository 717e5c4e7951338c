"""The manifest: what is read, and what is refused with its line."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.builtin_plugins.wasm.folders import write_plugin
from tests.support.examples import examples

from hookgate.builtin_plugins.wasm.engine.limits import Limits
from hookgate.builtin_plugins.wasm.packages.folders import MANIFEST, lacking
from hookgate.builtin_plugins.wasm.packages.manifest import (
    Manifest,
    parse_manifest,
    within,
)
from hookgate.channels import Polling, Webhook
from hookgate.core.domain.errors import ConfigError
from hookgate.core.host import Host
from hookgate.core.settings.schema import Settings
from hookgate.core.settings.secret_store import SecretStore

TOOL = """\
name = "weather"
version = "1.2.0"
kind = "tool"
module = "weather.wasm"
grants = ["http:GET https://api.example.com/v1/*", "log"]

[limits]
seconds = 10

[[tools]]
name = "forecast"
description = "Tell tomorrow's weather."
timeout = 8.5
flags = { sendsExternally = true }
[tools.schema]
type = "object"
properties = { town = { type = "string" } }
required = ["town"]
"""
CHANNEL = """\
name = "telegram"
version = "0.1"
kind = "channel"
module = "telegram.wasm"
capabilities = ["http:api.telegram.org"]

[channel.features]
edit = true
max_length = 4096

[channel.webhook]
verification = "header"
secret = "telegram_webhook"
header = "X-Telegram-Bot-Api-Secret-Token"
"""


def read(text: str) -> Manifest:
    return parse_manifest(text, "hookgate-plugin.toml")


def wrong(text: str) -> str:
    with pytest.raises(ConfigError) as caught:
        read(text)
    return str(caught.value)


def test_a_manifest_of_tools_is_read():
    manifest = read(TOOL)
    (tool,) = manifest.tools
    assert (manifest.name, manifest.kind, manifest.module) == ("weather", "tool", "weather.wasm")
    assert tool.input_schema["required"] == ["town"]
    assert manifest.granted.texts == ("http:GET https://api.example.com/v1/*", "log")
    assert manifest.flags_of(tool).standing("sends_externally") == "proven"


def test_a_tool_without_a_schema_takes_no_arguments():
    manifest = read(TOOL.partition("[tools.schema]")[0])
    assert manifest.tools[0].input_schema["additionalProperties"] is False


def test_a_manifest_of_a_channel_is_read_and_capabilities_are_grants():
    manifest = read(CHANNEL)
    assert manifest.granted.patterns == ("https://api.telegram.org/*",)
    assert manifest.channel is not None
    assert manifest.channel.features.max_length == 4096
    assert manifest.channel.webhook is not None
    assert manifest.channel.webhook == Webhook(
        verification="header",
        secret="telegram_webhook",
        header="X-Telegram-Bot-Api-Secret-Token",
    )
    polled = CHANNEL.partition("[channel.webhook]")[0] + "[channel.polling]\nseconds = 50\n"
    section = read(polled).channel
    assert section is not None
    assert section.polling is not None
    assert section.polling == Polling(seconds=50)


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        ("version =", "versoin =", "hookgate-plugin.toml:2: `versoin`: found a key that is not"),
        ("version =", "versoin =", "did you mean `version`?"),
        ("[limits]\nseconds", "[limits]\nsecond", ":8: `limits.second`"),
        ("timeout =", "timout =", ":13: `tools[0].timout`.*did you mean `timeout`"),
        ('kind = "tool"', 'kind = "tol"', ":3: `kind`: found the text"),
        ('"log"]', '"lgo"]', ":5: `grants"),
        ('"log"]', '"lgo"]', "did you mean `log`"),
        ('module = "weather.wasm"', 'module = "../weather.wasm"', ":4: `module`"),
        ('module = "weather.wasm"', "", "`module`: found nothing"),
        ("sendsExternally = true", "sends_externally = false", "the grants prove true"),
        ("sendsExternally = true", "sends = true", "unknown flag 'sends'"),
        ('type = "object"', 'type = "array"', ":15: `tools[0].schema"),
        ('name = "forecast"', 'name = "fore cast"', ":11: `tools[0].name`"),
        ("timeout = 8.5", "timeout = 100000", ":13: `tools[0].timeout`"),
        ('version = "1.2.0"', 'version = "1.2.0"\ncapabilities = ["log"]', "one of the two"),
        ('kind = "tool"', 'kind = "channel"', "`channel`: found missing"),
        ('name = "weather"', "name = ", "found no TOML value, expected text in quotes"),
        ('version = "1.2.0"', "version = 1.2", ":2: `version`: found 1.2"),
    ],
)
def test_what_is_wrong_is_told_with_its_line(before: str, after: str, told: str):
    assert before in TOOL
    import re

    found = wrong(TOOL.replace(before, after, 1))
    plain = re.escape(told).replace(r"\.\*", ".*")
    assert re.search(plain, found, re.DOTALL), found


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        (
            '"http:api.telegram.org"',
            '"http:api.telegram.org", "fs-read:/srv/x"',
            "no fs-read: for a channel",
        ),
        ('"http:api.telegram.org"', '"log"', "expected where the host may send"),
        ("[channel.webhook]", "[channel.polling]\n[channel.webhook]", "found both"),
        ('secret = "telegram_webhook"', "", "`channel.webhook.secret`: found nothing"),
        ('"header"\n', '"hmac-sha256"\nsigned = "x"\n', "expected {body} in it once"),
        ("[channel.features]", "[[tools]]\nname='a'\ndescription='b'\n[channel.features]", "alone"),
    ],
)
def test_what_is_wrong_with_a_channel_is_told(before: str, after: str, told: str):
    assert before in CHANNEL
    assert told in wrong(CHANNEL.replace(before, after, 1))


def test_all_problems_are_told_at_once():
    told = wrong(TOOL.replace("version =", "versoin =").replace('kind = "tool"', 'kind = "x"'))
    assert "`versoin`" in told
    assert "`kind`" in told


def test_limits_are_asked_within_what_is_allowed():
    limits = read(TOOL).limits
    assert within(limits, Limits(seconds=20.0)).seconds == 10
    assert within(limits, Limits(seconds=20.0, fuel=1000)).fuel == 1000
    with pytest.raises(ValueError, match=r"`limits.seconds` is 10.*at most 5"):
        within(limits, Limits(seconds=5.0))


def test_deep_nesting_and_odd_numbers_are_refused():
    assert "nested too deep" in wrong("a = " + "[" * 5000 + "]" * 5000)
    assert wrong(TOOL.replace("seconds = 10", "seconds = nan"))
    assert wrong(TOOL.replace("seconds = 10", "seconds = inf"))
    assert wrong(TOOL.replace("seconds = 10", "seconds = " + "9" * 5000))


WORDS = st.sampled_from(
    [
        *("name", "version", "kind", "module", "grants", "capabilities", "limits", "tools"),
        *("channel", "features", "webhook", "polling", "schema", "flags", "digest", "x"),
    ]
)
VALUES = st.recursive(
    st.one_of(
        st.sampled_from(['"weather"', '"tool"', '"channel"', '"a.wasm"', '"log"', "true", "nan"]),
        st.integers().map(str),
        st.floats(allow_nan=False, allow_infinity=False).map(repr),
        st.just("1979-05-27T07:32:00Z"),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3).map(lambda items: f"[{', '.join(items)}]"),
        st.lists(st.tuples(WORDS, inner), max_size=3, unique_by=lambda pair: pair[0]).map(
            lambda pairs: "{ " + ", ".join(f"{key} = {value}" for key, value in pairs) + " }"
        ),
    ),
    max_leaves=8,
)
LINES = st.one_of(
    st.tuples(WORDS, VALUES).map(" = ".join),
    WORDS.map("[{}]".format),
    WORDS.map("[[{}]]".format),
    st.sampled_from(TOOL.splitlines()),
    st.sampled_from(CHANNEL.splitlines()),
    st.text(max_size=20),
)


@examples(300)
@given(st.lists(LINES, max_size=14).map("\n".join))
@example(TOOL)
@example(CHANNEL)
@example("limits = { seconds = 1e999 }")
def test_any_text_is_a_manifest_or_refused_with_a_reason(text: str):
    try:
        manifest = read(text)
    except ConfigError as error:
        assert error.problems
        assert all(one.file == "hookgate-plugin.toml" for one in error.problems)
    else:
        assert tomllib.loads(text)["name"] == manifest.name
        # What is accepted is consistent.
        assert manifest.granted.texts == (manifest.grants or manifest.capabilities)


def test_a_secret_that_a_guest_is_granted_and_that_is_nowhere_is_told(tmp_path: Path) -> None:
    grants = [
        "http:GET https://a.example/*",
        "secret:weather_key -> header @ https://a.example/*",
        "secret:other_key -> header @ https://a.example/*",
    ]
    write_plugin(tmp_path / "given" / "weather", b"", name="weather", grants=grants)
    copy = tmp_path / "home" / "wasm" / "plugins" / "sun" / "0123456789abcdef"
    write_plugin(copy, b"", name="sun", grants=grants[:2])
    (tmp_path / "given" / "broken").mkdir()
    (tmp_path / "given" / "broken" / MANIFEST).write_text("name = 3")
    settings = Settings.model_validate(
        {"home": tmp_path / "home", "secrets": {"other_key": "quokka"}}
    )
    problems = lacking([tmp_path / "given"], Host(settings, SecretStore(settings, environ={})))
    assert [one.key for one in problems] == ["plugin.wasm.folders", "plugin.wasm"]
    assert all("no secret 'weather_key'" in one.found for one in problems)
    assert "'sun'" in problems[1].found
    assert "weather_key" in problems[0].expected
