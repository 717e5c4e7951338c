"""Write docs/configuration.md from the typed settings: ``python -m docs.configuration_page``.

Every section and key of `core/settings/schema.py` stands there with what it takes, its default
and its docstring. The text around the tables is below.
"""

from __future__ import annotations

import json
import re
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from hookgate.core.settings.schema import Settings
from hookgate.core.settings.words import Shape, type_words

PAGE = Path(__file__).parent / "configuration.md"

INTRODUCTION = """\
# Configuration

<!-- `make docs` writes this page from core/settings/schema.py and docs/configuration_page.py. -->

hookgate needs no settings: without any it listens on 127.0.0.1:7200, with a demo agent that
works offline. What you want otherwise stands in one TOML file, `~/.hookgate/config.toml`.

```toml
[agents.main]
model = "anthropic/claude-sonnet-4-5"
soul_file = "soul.md"             # from the folder of this file

[gateway]
port = 7300

[plugin.storage]                  # each plugin has a section of its own
path = "conversations.db"
```

`hookgate config check` says what is wrong, agents' models, missing API keys and secrets of channels
and schedules that nobody answers included: every plugin is asked what it lacks (the
rules of policy have a check of their own, `hookgate policy check`), `hookgate config show` what
is in force and where each value comes from, and `hookgate config schema` prints a JSON Schema for
editors.

## Where a value comes from

From the last of these that gives it:

1. the default, as it stands below;
2. the settings file: the one that `--config` names, or `HOOKGATE_CONFIG`, or `config.toml` in
   `HOOKGATE_HOME`, or `~/.hookgate/config.toml`, in this order; only a file that is named has to
   exist;
3. environment variables: `HOOKGATE_` and the key in capitals, with two underscores for each dot.
   `HOOKGATE_GATEWAY__PORT=7300` sets `gateway.port`, and `HOOKGATE_HOME=/srv/hookgate` sets
   `home`. A value is JSON or TOML (`true`, `7300`, `["a", "b"]`); what is neither is text, and
   a key that takes text gets the text as it is. A dash in a name is an underscore:
   `HOOKGATE_AGENTS__MY_BOT__MODEL` reaches `[agents.my-bot]` where the file has it. Variables
   without two underscores that name no key are left alone;
4. the command line, such as `hookgate serve --port 7300`.

A relative path begins at the folder of the settings file, in the sections of plugins too, and
wherever it was set: in the file, in a variable, or in the list `HOOKGATE_CAPABILITY_DIRS`. So the
folder that you happen to stand in never chooses a policy, a key or what may be read. Without a
settings file, it begins at `home`. What you name on the command line, and `HOOKGATE_CONFIG` and
`HOOKGATE_HOME`, begin at the current folder, as in any command. A few keys, such as `path` of
`[plugin.storage]`, begin at `home`; their descriptions say so. `~` is your home folder.

## When something is wrong

Everything that is wrong is said at once, and the command ends with exit code 2:

```
config.toml:3: `gateway.port`: found the text "7200", expected a whole number from 0 to 65535
config.toml:4: `gateway.hots`: found a key that is not known, ...; did you mean `gateway.host`?
environment: `log.level`: found the text "loud" in HOOKGATE_LOG__LEVEL, expected one of ...
```

Values that may be secrets are not shown.

## Secrets

A secret, such as the key of a model's provider, is looked for by its name in these places, in
this order:

1. an environment variable of that name in capitals: `ANTHROPIC_API_KEY` for `anthropic_api_key`;
2. the file that such a variable with `_FILE` behind it names, by a whole path:
   `ANTHROPIC_API_KEY_FILE=/run/secrets/anthropic`. One that cannot be used is an error, which
   names the variable;
3. the credentials that systemd has loaded for the unit: `LoadCredential=anthropic_api_key:...`
   makes `$CREDENTIALS_DIRECTORY/anthropic_api_key`;
4. the places that plugins bring, such as Vault ([examples/vault](../examples/vault));
5. a key file, `~/.hookgate/keys/anthropic_api_key`;
6. the section `[secrets]`.

A file holds the key and nothing else. It must belong to the user who runs the gateway and have mode
0600 or 0400, and its folder must not be writable for others. Otherwise it is refused, with the
command that mends it.

A secret that is replaced, in a file or in a plugin's place, is in force within ten seconds, without
a restart and without a reload: the keys of providers, and what is looked for when it is needed.
What is read once, at the start, says so on its page. While a file cannot be used, what it held
before is in force, and `status` says why.

What Docker, Kubernetes or systemd mount is read as it comes, as any of these files, a token's
`file`, a provider's `api_key_file` or the `url_file` of `[plugin.storage]`. Whose it is and who may
change it decides there: root's files count up
to mode 0640 (its group may read it), and on a read-only mount those of root and of the user who
runs the gateway up to 0644, in a folder of root's or of that user that nobody else may write to;
on a read-only mount its mode does not count. Links are followed that stay below such a folder, such
as `token -> ..data/token`: who can make one there could put the key there as well.

Every secret that was found, or that stands in `[secrets]`, is masked wherever text leaves the
gateway: log, errors, events, `status`. So are its forms in URLs, base64 and JSON. Values of
fewer than 6 characters are not masked, since they stand in ordinary text by chance.

## Changing settings while it runs

`hookgate reload`, or SIGHUP, reads everything again. Agents, bindings and `default_agent` are
taken over, access tokens and the limits of `[gateway.limits]`, the providers, and sections of
plugins that can change while they run, such as `[plugin.awareness]`. So are `[turn]` and
`[context]`, for turns that begin from then on, but for `turn.sandbox`, `turn.lane_queue`,
`turn.answerers`, `turn.default_verdict` and `context.unsanitized`. Nothing is refused meanwhile,
and what runs goes on as it began. Who came in by a token that is gone, or that says something else
now, is closed with 1008; to replace a token without that, name the new one beside it first.

For other keys it says which of them wait for a restart, `status` shows them until then (as a
notice, `settings`), and `config show` marks them. If the settings are wrong by then, everything
stays as it was.
"""

PLUGINS = """\
## `[plugin.NAME]`

One section for each plugin, with the plugin's own keys. They stand on the page of the plugin, in
[plugins](plugins/). A plugin that takes the place of a builtin (`plugins.replace`) has its
settings under the builtin's name.
"""


def sections(model: type[BaseModel], path: str = "") -> Iterator[tuple[str, type[BaseModel]]]:
    """Yield the header of every section, such as ``[agents.NAME]``, and its model."""
    for name, field in model.model_fields.items():
        where = f"{path}.{name}" if path else name
        inner = _section(field.annotation)
        if inner is None:
            continue
        kind = typing.get_origin(field.annotation)
        if kind is dict:
            where += ".NAME"
        yield (f"[[{where}]]" if kind is tuple else f"[{where}]"), inner
        yield from sections(inner, where)


def _section(annotation: Any) -> type[BaseModel] | None:
    """Return the model of a section, of the sections of a dict, or of an array of tables."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    for argument in typing.get_args(annotation):
        if isinstance(argument, type) and issubclass(argument, BaseModel):
            return argument
    return None


def table(model: type[BaseModel]) -> str:
    """Return the table of the keys of `model` that are no sections."""
    shape = Shape(model)
    described = model.model_json_schema()["properties"]
    rows = ["| key | takes | default | |", "|---|---|---|---|"]
    for name, field in model.model_fields.items():
        if _section(field.annotation) is None and name != "plugin":
            takes = type_words(shape.at((name,))).replace("|", "\\|")
            told = _one_line(described[name].get("description", "")).replace("|", "\\|")
            rows.append(f"| `{name}` | {takes} | {_default(name, field)} | {told} |")
    return "\n".join(rows) + "\n"


def _default(name: str, field: FieldInfo) -> str:
    if field.is_required():
        return "has to be given"
    if name == "home":
        return '`"~/.hookgate"`'
    value = field.get_default(call_default_factory=True)
    return "none" if value is None else f"`{_toml(value)}`"


def _toml(value: Any) -> str:
    if isinstance(value, dict):
        pairs = ", ".join(f"{key} = {_toml(item)}" for key, item in value.items())
        return f"{{ {pairs} }}" if pairs else "{}"
    if isinstance(value, tuple):
        return f"[{', '.join(map(_toml, value))}]"
    return json.dumps(value)


def _one_line(text: str) -> str:
    return re.sub(r"\s+", " ", text).strip()


def page() -> str:
    """Return the whole page."""
    parts = [INTRODUCTION, "## Keys outside all sections\n", table(Settings)]
    for header, model in sections(Settings):
        # The docstring names its section, which the heading does already.
        told = re.sub(r"(: )?``\[.*?\]``(: )?", "", _one_line(model.__doc__ or ""))
        parts += [f"## `{header}`\n", f"{told[0].upper()}{told[1:]}\n", table(model)]
    parts.append(PLUGINS)
    return "\n".join(parts)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
