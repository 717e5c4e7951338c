"""``hookgate init``: a first settings file: who answers, what tools may do; and a first chat.

Before anything is written, the answers are tried: a gateway with the providers alone lists the
models and asks one of them, with a key that nothing has kept yet.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hookgate.cli.state import JsonOption, State, state_of

if TYPE_CHECKING:
    pass

HEADS = {
    "reads_external_data": "reads",
    "writes_persistent_state": "writes",
    "sends_externally": "sends",
    "executes_privileged": "privileged",
    "creates_autonomous_actions": "autonomous",
}

SERVER = "server"
DEMO = "demo"

MAKERS = {"anthropic": "claude-sonnet-4-5", "openai": "gpt-5.2"}
"""Providers with a key of their own, and the model that is proposed where it is there."""

CHOICES = {
    "anthropic": "Claude, at Anthropic; needs an API key",
    "openai": "GPT, at OpenAI; needs an API key",
    SERVER: "a server that speaks OpenAI's protocol: Ollama, vLLM, llama.cpp, LM Studio, ...",
    DEMO: "nobody yet: a demo that follows a few rules, offline",
}

OLLAMA = "http://127.0.0.1:11434/v1"

TRIED_WITH = ("control", "egress", "providers")
"""The plugins with which a provider is tried: no store is opened, and nothing is kept."""

LISTED = 12
"""Models of a server that are shown."""

NO_AGENT = """\
# Without an agent of your own, a demo agent answers that needs no key.
# [agents.main]
# model = "anthropic/claude-sonnet-4-5"        # the key: ANTHROPIC_API_KEY in the environment
# soul = "You are a helpful assistant. Keep it short.\""""


@dataclass(frozen=True, slots=True)
class Chosen:
    """Who is to answer.

    Attributes:
        provider: The provider's name; "" for the demo.
        model: Its model; "" while it is not chosen.
        base_url: Where it is, for a server that is no maker's own.
        key: A key that was typed; "" where one is found, or none is needed.
    """

    provider: str = ""
    model: str = ""
    base_url: str = ""
    key: str = ""

    @property
    def variable(self) -> str:
        """The environment variable of its key, and the key file's name in capitals."""
        return f"{self.provider.upper().replace('-', '_')}_API_KEY"

    @property
    def sections(self) -> dict[str, Any]:
        """What its settings are, by key."""
        made: dict[str, Any] = {"agents.main.model": f"{self.provider}/{self.model}"}
        if self.base_url:
            here = f"plugin.providers.{self.provider}"
            made |= {f"{here}.kind": "openai", f"{here}.base_url": self.base_url}
            made |= {f"{here}.api_key_env": self.variable} if self.key else {}
        return made

    def to_toml(self) -> str:
        """Return them as they stand in the file."""
        soul = 'soul = "You are a helpful assistant. Keep it short."'
        model = _quoted(f"{self.provider}/{self.model}")
        lines = ["[agents.main]", f"model = {model}", soul]
        if self.base_url:
            lines += ["", f"[plugin.providers.{self.provider}]", 'kind = "openai"']
            lines += [f"base_url = {_quoted(self.base_url)}"]
            lines += [f'api_key_env = "{self.variable}"'] if self.key else []
        return "\n".join(lines)


def init(
    ctx: typer.Context,
    file: Annotated[
        Path | None,
        typer.Argument(help="The file; config.toml in the home folder where it is left out."),
    ] = None,
    provider: Annotated[
        str, typer.Option(help="Who answers: anthropic, openai, server or demo.")
    ] = "",
    model: Annotated[str, typer.Option(help="The model, as the provider names it.")] = "",
    base_url: Annotated[str, typer.Option(help="Where the server is.", metavar="URL")] = "",
    ask: Annotated[
        bool | None,
        typer.Option("--ask/--no-ask", help="Whether to ask; on a terminal it does."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Set hookgate up: ask who answers, try the key with one call, and begin to talk.

    It writes a first settings file, with the policy profile that suits the installed tools, and a
    key that you type into a key file of mode 0600. Nothing is overwritten, and nothing is written
    before a model has answered, unless you say so.

    Examples:
        hookgate init
        hookgate init --provider server --base-url http://127.0.0.1:11434/v1 --model qwen3
    """
    from rich.text import Text

    from hookgate.core.domain.errors import StartError

    state = state_of(ctx)
    path = file or state.source.path or state.settings.home / "config.toml"
    if path.exists():
        raise StartError(
            f"{path} is there already, and nothing is overwritten: name another file, or change "
            "that one (`hookgate providers test` tries the models that it names, `hookgate policy "
            "table` shows what each profile does)"
        )
    asks = (sys.stdin.isatty() and not state.json) if ask is None else ask
    named = Chosen(provider=provider, model=model, base_url=base_url)
    chosen = Interview(state).choose(named) if asks else _told(state, named)
    data, suggestion = _write(state, path, chosen)

    said = [Text(f"wrote {path}", style="bold green")]
    if data["key_file"]:
        said.append(Text(f"wrote {data['key_file']}"))
    said.append(Text(f"policy profile: {suggestion.profile}"))
    said += [Text(f"  {reason}", style="dim") for reason in suggestion.reasons]
    if not asks:
        said.append(Text("next: `hookgate config check`, then `hookgate chat`"))
    state.show(data, said)
    if asks:
        _talk(state, path)


# -- asking --------------------------------------------------------------------------


class Interview:
    """Asks at the terminal who is to answer, until a model has."""

    def __init__(self, state: State) -> None:
        self._state = state

    def choose(self, named: Chosen) -> Chosen:
        """Return who is to answer, tried.

        Raises:
            typer.Exit: Somebody wanted no more.
        """
        while True:
            chosen = self._answers(named)
            if not chosen.provider:
                return chosen
            tried = _try(self._state, chosen)
            _show_tried(self._state, tried)
            if tried["ok"]:
                return chosen
            said = _prompt("again, keep it all the same, or quit?", default="again").lower()
            if said.startswith("k"):
                return chosen
            if said.startswith("q"):
                raise typer.Exit(1)
            named = Chosen()

    def _answers(self, named: Chosen) -> Chosen:
        kind = named.provider or self._kind()
        if kind == DEMO:
            return Chosen()
        chosen = replace(named, provider=kind)
        if kind not in MAKERS:
            chosen = self._server(chosen)
        elif (where := _found_key(self._state, chosen)) != "":
            self._say(f"the key: {where}")
        else:
            key = _prompt("its API key (not shown)", hidden=True)
            chosen = replace(chosen, key=key)
        return chosen if chosen.model else self._model(chosen)

    def _kind(self) -> str:
        self._say("Who shall answer?", style="bold")
        names = list(CHOICES)
        for number, (name, what) in enumerate(CHOICES.items(), start=1):
            self._say(f"  {number}  {name:<10} {what}")
        ready = [name for name in MAKERS if _found_key(self._state, Chosen(provider=name))]
        while True:
            said = _prompt("number or name", default=(ready or names)[0]).lower()
            if said in names:
                return said
            if said.isdigit() and 0 < int(said) <= len(names):
                return names[int(said) - 1]
            self._say(f"found {said!r}, expected 1 to {len(names)}, or a name", style="yellow")

    def _server(self, chosen: Chosen) -> Chosen:
        base_url = chosen.base_url or _prompt("its address", default=OLLAMA)
        key = _prompt("its API key (not shown; Enter where it needs none)", default="", hidden=True)
        return _at(replace(chosen, key=key), base_url)

    def _model(self, chosen: Chosen) -> Chosen:
        names = _served(self._state, chosen)
        usual = MAKERS.get(chosen.provider, "")
        if names:
            more = f", and {len(names) - LISTED} more" if len(names) > LISTED else ""
            self._say(f"its models: {', '.join(names[:LISTED])}{more}", style="dim")
            usual = usual if usual in names else names[0]
        return replace(chosen, model=_prompt("which model", default=usual or None))

    def _say(self, text: str, style: str = "") -> None:
        self._state.out.print(text, style=style, markup=False, soft_wrap=True)


def _prompt(text: str, *, default: str | None = None, hidden: bool = False) -> str:
    said = typer.prompt(text, default=default, hide_input=hidden, show_default=not hidden)
    return str(said).strip()


def _told(state: State, named: Chosen) -> Chosen:
    """Return who is to answer by the command line alone, tried.

    Raises:
        AnsweredError: It does not answer.
        typer.BadParameter: Something is missing.
    """
    from hookgate.cli.client.local import AnsweredError

    if named.provider in ("", DEMO):
        return Chosen()
    if named.provider not in MAKERS and not named.base_url:
        raise typer.BadParameter(
            f"found --provider {named.provider} without --base-url, expected the server's address, "
            f"such as {OLLAMA}; or one of {', '.join(CHOICES)}"
        )
    chosen = _at(named, named.base_url) if named.base_url else named
    if not chosen.model:
        usual = MAKERS.get(chosen.provider) or next(iter(_served(state, chosen)), "")
        chosen = replace(chosen, model=usual)
    tried = _try(state, chosen)
    if not tried["ok"]:
        (row,) = tried["tried"]
        raise AnsweredError(f"{row['error']}; nothing was written", row)
    return chosen


def _at(chosen: Chosen, base_url: str) -> Chosen:
    """Return a server of one's own with an address, and the name that it gets for it."""
    name = "ollama" if ":11434" in base_url else "local"
    return replace(chosen, provider=name, base_url=base_url.rstrip("/"))


# -- trying --------------------------------------------------------------------------


def _found_key(state: State, chosen: Chosen) -> str:
    """Say where a key of a provider is already; "" where none is."""
    from hookgate.core.settings.secret_store import SecretStore

    if state.environ.get(chosen.variable, "").strip():
        return f"{chosen.variable} of the environment"
    name = chosen.variable.lower()
    return f"the secret {name}" if SecretStore(state.settings, state.environ).get(name) else ""


def _trial(state: State, chosen: Chosen) -> State:
    """Return a run of the command line with these answers, which nothing has kept."""
    from hookgate.builtin_plugins import BUILTIN

    sections = dict(chosen.sections)
    if chosen.key:
        sections[f"plugin.providers.{chosen.provider}.api_key"] = chosen.key
    if not chosen.model:
        del sections["agents.main.model"]
    return State(
        local=True,
        disabled=tuple(name for name in BUILTIN if name not in TRIED_WITH),
        environ=state.environ,
        overrides={**sections, "plugins.entry_points": False},
    )


def _ask(state: State, chosen: Chosen, operation: str, params: Mapping[str, Any]) -> Any:
    trial = _trial(state, chosen)
    try:
        return trial.ask(operation, params)
    finally:
        trial.close()


def _served(state: State, chosen: Chosen) -> list[str]:
    """Return the models that the provider lists; [] where it does not, which the trial tells."""
    from hookgate.core.domain.errors import ConfigError, HookgateError

    try:
        found = _ask(state, chosen, "models.list", {"provider": chosen.provider})
    except ConfigError:
        raise
    except HookgateError as error:
        state.err.print(f"its models are not known: {error}", style="yellow", markup=False)
        return []
    rows = found["models"]
    return [row["model"].partition("/")[2] for row in rows]


def _try(state: State, chosen: Chosen) -> Any:
    state.err.print(f"asking {chosen.provider}/{chosen.model} ...", style="dim", markup=False)
    return _ask(state, chosen, "providers.test", {"name": f"{chosen.provider}/{chosen.model}"})


def _show_tried(state: State, tried: Any) -> None:
    from hookgate.cli.plugin_commands import view
    from hookgate.kit.rendering import print_shown

    shown = view(state, "providers.test")
    print_shown(state.out, str(tried) if shown is None else shown(tried))


# -- writing -------------------------------------------------------------------------


def _write(state: State, path: Path, chosen: Chosen) -> tuple[dict[str, Any], Any]:
    from importlib.resources import files

    from hookgate.builtin_plugins.policy.rules.profiles import suggest
    from hookgate.kit.content.scaffold import filled, scaffold

    rows = state.ask("tools.list", {"name": "*"})["tools"]
    tools = {
        row["name"]: {name: flag["value"] for name, flag in row["flags"].items()} for row in rows
    }
    suggestion = suggest(tools)
    why = (f"Suggested: {suggestion.profile}.", *suggestion.reasons)
    words = {
        "file": path.name,
        "agent": chosen.to_toml() if chosen.provider else NO_AGENT,
        "why": "\n".join(f"# {one}" for one in why),
        "profile": suggestion.profile,
        "table": "\n".join(_table(tools)),
    }
    templates = files("hookgate.cli") / "commands" / "templates"
    key_file = _keep_key(state, chosen) if chosen.key else ""
    scaffold(path.parent, filled(templates, words), fresh=False, private=True)
    data = {
        "file": str(path),
        "model": f"{chosen.provider}/{chosen.model}" if chosen.provider else "",
        "key_file": key_file,
        "profile": suggestion.profile,
        "reasons": list(suggestion.reasons),
        "tools": len(tools),
    }
    return data, suggestion


def _keep_key(state: State, chosen: Chosen) -> str:
    """Write a key that was typed where secrets are looked for; return the file."""
    from hookgate.core.settings.whole_file import write_whole

    folder = state.settings.home / "keys"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    path = folder / chosen.variable.lower()
    write_whole(path, f"{chosen.key}\n".encode(), durable=True)
    return str(path)


def _table(tools: Mapping[str, Mapping[str, bool | None]]) -> Sequence[str]:
    """Return the flags of every tool, as comments."""
    width = max((len(name) for name in tools), default=4)
    heads = "  ".join(f"{head:<10}" for head in HEADS.values())
    lines = [f"# {'tool':<{width}}  {heads}".rstrip()]
    words = {True: "yes", False: "-", None: "unknown"}
    for name, flags in sorted(tools.items()):
        values = "  ".join(f"{words[flags.get(flag)]:<10}" for flag in HEADS)
        # A name is quoted as JSON: it must not end the comment.
        shown = _quoted(name)[1:-1]
        lines.append(f"# {shown:<{width}}  {values}".rstrip())
    return lines


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


# -- the first chat --------------------------------------------------------------------


def _talk(state: State, path: Path) -> None:
    """Begin to talk with what was written, where no gateway runs with what was set before."""
    from hookgate.cli.commands.turn import address_params
    from hookgate.cli.talk import Talk

    runs = state.run(state.running()) is not None
    state.close()
    if runs:
        state.err.print(
            "a gateway runs with the settings of before: restart it, then `hookgate chat`",
            style="yellow",
        )
        return
    fresh = State(config=path, environ=state.environ)
    try:
        raise typer.Exit(Talk(fresh, address_params("cli", "local", "main")).run())
    finally:
        fresh.close()
