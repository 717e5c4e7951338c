"""Write docs/wire.md from the operations and the error codes: ``python -m docs.wire_page``.

The methods, their parameters and results, and the table of errors come from the code. The
text around them is below.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, get_args

from hookgate import Gateway, Settings
from hookgate.builtin_plugins.control.chat import Answer
from hookgate.core.domain.errors import ProviderErrorKind
from hookgate.core.gateway.access.browser import SESSION_SECONDS
from hookgate.core.gateway.access.peer import (
    NONCE_HEADER,
    OWNER_PREFIX,
    OWNER_PURPOSE,
    PROOF_HEADER,
    PURPOSE,
)
from hookgate.core.gateway.codes import CODES
from hookgate.core.gateway.operations import Operation
from hookgate.core.gateway.wire.rpc import PROTOCOL, AuthParams, AuthResult
from hookgate.core.gateway.wire.stream import QUEUE_BYTES
from hookgate.core.gateway.wire.websocket import (
    AUTH_SECONDS,
    MAX_REQUESTS,
)
from hookgate.core.settings.schema import LimitSettings
from hookgate.kit.functions.signatures import schema_of

PAGE = Path(__file__).parent / "wire.md"
LIMITS = LimitSettings()
KINDS = ", ".join(f"`{kind}`" for kind in get_args(ProviderErrorKind))

TEXT = f"""\
# The wire

<!-- `make docs` writes this page from the operations, the error codes and docs/wire_page.py. -->

How programs speak to a gateway: JSON-RPC 2.0 over WebSocket, and the same methods over HTTP.
This is version {PROTOCOL} of the protocol. It grows when an old client would no longer work;
new methods, events and members do not count, so pass over what you do not know.

```python
import asyncio, json, aiohttp

async def main():
    async with aiohttp.ClientSession() as http, http.ws_connect("http://127.0.0.1:7200/ws") as ws:
        await ws.receive()                                     # hello
        await ws.send_json({{"jsonrpc": "2.0", "id": 1, "method": "chat.send",
                            "params": {{"content": "what is 17*23?"}}}})
        async for message in ws:
            frame = json.loads(message.data)
            if frame.get("method") == "text":
                print(frame["params"]["text"], end="", flush=True)
            if frame.get("method") == "done" or "error" in frame:
                break

asyncio.run(main())
```

```sh
curl -sS http://127.0.0.1:7200/v1/turns -H 'Content-Type: application/json' \\
  -d '{{"content": "what is 17*23?"}}'
curl -sSN http://127.0.0.1:7200/v1/turns -H 'Content-Type: application/json' \\
  -H 'Accept: text/event-stream' -d '{{"content": "what is 17*23?"}}'
```

## Coming in

| listener | who may come in |
|---|---|
| on loopback, no `[gateway.tokens]` | this machine, with no token; on Linux its own user and root |
| with tokens, wherever it listens | who brings a token, loopback included; and the home's owner |
| beyond loopback, no tokens | nobody: the gateway does not start |

A token comes in one of four ways, and never in a URL; two at once are refused:

- `Authorization: Bearer TOKEN` on the request;
- `x-api-key: TOKEN` on the request;
- as the first frame of a WebSocket, within {AUTH_SECONDS:.0f} s: a request `auth` with `token`;
  until it is answered nothing else is;
- from a browser, which cannot set headers: the subprotocols `hookgate, bearer.TOKEN`. The
  gateway takes up `hookgate`.

`hookgate token new NAME` makes a token and prints its line for the settings, which hold its
SHA-256 only. `token.revoke` closes the token's live connections within a second and holds from
then on. {LIMITS.attempts_per_minute} failed attempts from one address (an IPv6 /64 is one) in a
minute are compared; until the minute is over nothing more is, but for what was right before and
for what has the form that `hookgate token new` or `hookgate keys new` gives: who
guesses locks out nobody behind the same proxy. `agents`, `models` and `expires` of
`[gateway.tokens.NAME]` say whom a token may speak to,
which models may answer it and when it ends; its sockets are closed then, and its turns cancelled.

Keys (`hgk_...`) are presented in the same ways, and are made while the gateway runs: `hookgate keys
new` ([keys](plugins/keys.md)). A request may bring one in both `Authorization` and `x-api-key`.

A token that the settings do not know is shown to plugins
([authenticate](hooks/authenticate.md)), which may know keys of their own, and cookies on routes
that name one. Whoever presents a token that nobody knows is refused on every listener, one
without tokens included: there, present none.

A page of the gateway's own shows its token once: `POST /v1/session` with `token` answers with a
cookie that no script can read (`HttpOnly`, `SameSite=Strict`; `__Host-` and `Secure` over TLS).
It stands for the token on `/ws`, on all operations and on routes that take the credential
`session`, in requests of the gateway's own pages alone. Whatever holds for the token holds for it:
scopes, claims, its end, and that it was revoked. It lasts {SESSION_SECONDS // 3600} hours from
when it was shown to `GET /v1/session`, which says who is logged in; `DELETE /v1/session` ends it at
every gateway on the store, and closes its sockets. A socket ends when the session does, as far as
its gateway was shown it. It holds no token of the settings, only its name
and a signature; a credential that a plugin knows is in it as it is, and the plugin is asked about
it each time. Where a listener has no tokens nobody logs in. Browsers keep cookies apart by host,
not by port or path: a server at another port of the same host gets this one as well. Its name is
of the gateways on one store, so another gateway there leaves it in its place.

A client of the gateway's own user can see that it speaks to the gateway of its home folder, and
to nobody who has taken the port, before it sends a token or a message: it reads `key` from
`gateway.json` in that folder, which is for its owner alone, and sends `{NONCE_HEADER}`, 64 random
hexadecimal digits, with a request. `{PROOF_HEADER}` of the answer is the HMAC-SHA256 under `key` of
four lines without a last line break: `{PURPOSE}`, the nonce, the IP address and the port at which
the request arrived, which must be those that the client has connected to. The handshake of a
WebSocket that wants a token first also has `WWW-Authenticate`. The command line does all this.

**The owner needs no token on loopback.** Whoever has read `key` shows so in place of a token, in
the first frame: `{OWNER_PREFIX}` and the HMAC-SHA256 under `key` of six lines: `{OWNER_PURPOSE}`,
the nonce of the request, the gateway's address and port, and the client's own, as its socket names
them. It counts from loopback alone, through no proxy, on Linux from the gateway's own user or root,
and on that connection only.

Whatever the listener, each request must name the gateway in its Host header: a loopback name or
the address that it came to, with the port, or an entry of `gateway.allowed_hosts`. `/health`,
`/ready` and `/metrics` answer where it is an IP address too, and by HTTP/1.0 without it, since
load balancers and monitors ask so; a foreign name is refused there as well. A WebSocket, and every
request that may change something, must come from no web page (no Origin header), from the
gateway's own (scheme, host and port of the request itself), or from one of
`gateway.allowed_origins`. A header that a proxy adds (`Forwarded`, `X-Forwarded-*`, `Via`,
`X-Real-IP`, `CF-*` and the like) is refused by a listener without tokens, and so is any other
whose name speaks of a way between client and gateway (`Tunnel`, `X-Acme-Relay`) or of who the
client is (`X-Acme-User`), unless it is one that clients are known to send.

## WebSocket

`GET /ws`. One JSON text in a text frame is one request. The frames are not compressed. JSON is
read strictly: no key twice, no NaN, no half of a surrogate pair, integers up to 2^53-1, 64 levels.

The first frame is the gateway's, a notification `hello`:

| member | what it says |
|---|---|
| `version`, `protocol` | the gateway's version, and the protocol's |
| `principal`, `scopes` | who the client is taken for, and what it may do |
| `limits` | what one client may cost: `frame_bytes`, `queue_frames`, `turns` and the like |
| `degraded` | what does not work as it should: part -> why |

**Requests.** `id` is a string (256 characters at most) or an integer, and comes back with its
type. Without `id` it is a notification: it is done, and nothing is said about it. Parameters go
by name. Batches are refused. {MAX_REQUESTS} requests of one socket may run at once, of them
`limits.turns_per_connection` turns and subscriptions. Answers come as they are ready: a socket
answers everything else while turns stream.

**Events.** What happens during a request are notifications. Their `params` hold the request's id
as `request`, and the event's own members. For `chat.send` the order is: the result, the events,
and exactly one `done` as the last. An error instead of a result means that nothing was committed.
A message that waits for its session gets `queued` (with the `turn`, for `chat.cancel`) before
its result.

| event | members |
|---|---|
| `queued` | `turn`, `before`: how many run or wait already |
| `context` | what was put before the model: `stage`, `tokens`, `budget`, `by_kind`, `left_out` |
| `cards` | `cards`: ids of the capability cards that the model gets to read; `stage` |
| `text` | `text`: some more of the answer; one event for each chunk of the model's |
| `reasoning` | `text`: some more of the reasoning that a provider shows |
| `tool_use` | `id`, `name`, `input`; `owner` is `client` for a tool that the client has to run; \
`within` where a tool, a provider or a hook calls it in the turn: the id of the call of that tool, \
or "" |
| `tool_result` | `tool_use_id`, `content`, `is_error`, `status`; `within` as its call has it; \
`parts` where the result is more than text: objects with a `type` of `text`, `image`, `audio`, \
`document` (each with `media_type` and base64 `data`) or `link` (`uri`, `name`); `content` then \
names them |
| `usage` | the tokens of one model call: `input_tokens` and `output_tokens` are all of them; parts\
 of these are `cache_read_tokens`, `cache_write_tokens` (`cache_write_hour_tokens` a part of it),\
 `audio_input_tokens`, `image_input_tokens`, and `reasoning_tokens`, `audio_output_tokens`,\
 `image_output_tokens`; `reported` is false where the gateway has estimated them |
| `approval` | a tool call, of this turn or one nested in it, that somebody is asked about |
| `warning` | `code`, `message`, `action`: the turn goes on, and its user should know this |
| `lifecycle` | `state`, in legal order: `planned`, `executing`, `degraded`, `recovered`,\
 `completed` or `errored`; `time`, `details` |
| `output_limited` | a budget has too little left: the `wanted` tokens of output are lowered to\
 `max_output_tokens`, for `model` |
| `attempt_failed` | one attempt at a model failed: `model`, `error`, `retry_in` |
| `error` | `code`, `message`, `action`: what the turn ended with; `retry_after` where it is known\
 after how many seconds it may work |
| `done` | `turn`, `session`, `ending`, `text`, `stop`, `usage` of the whole turn; `error` again,\
 where it ended with one; `pending` where it ended `awaiting_client`: the calls that the client has\
 to run, each with `id`, `name` and `input` |

An `approval` has a `state`: `pending`, with all that is asked about, then `allowed`, `denied`,
`expired` or `withdrawn`, with `id`, `by`, `tool` and `why`; or `granted`.

`ending` is `done`, `awaiting_client` (the client has to run tools and bring their results in
`tool_results`), `refused`, `failed` or `cancelled`. `stop` says why the model stopped that was
asked last: `end`, `tool_use`, `max_tokens`, `stop_sequence`, `refusal`, `other`, or null where it
did not. Plugins add events of their own.

| `code` of `warning` | what happened |
|---|---|
| `empty_answer` | the model answered, and there is nothing in it |
| `answer_cut` | the model stopped at the limit of its answer's length |
| `unread_tags` | the model has left `<think>` or `<tool_call>` in its text, and nobody reads them |
| `too_many_tool_calls` | a message called more tools than `turn.max_tool_calls` |
| `flags_not_followed` | the settings let no request set some of its flags |
| `unknown_flags` | nobody reads some of the request's flags: their names may be misspelt |

The `error` of a turn that its model has failed has `code` `provider_failed`, and `kind`:
{KINDS}. `action` says what to do about each. `code` is `unknown_model` where the provider says that
it has none of that name. Over HTTP `context_overflow` has the status 413: sent again it is as long.

**Flags.** `customFlags` in the `options` of `chat.send` says how a turn is to run. The gateway
itself knows `toolFailureMode` (`failureMode`, `failMode`): with `fail_closed` (`closed`) the turn
ends where discovery or a tool fails, and with `fail_open` (`open`) it goes on, unless the settings
say `fail_closed`. Case, `_` and `-` do not count in a name. A value that
means nothing is refused with `invalid_params` before anything is committed. Plugins know more
flags, such as [planning](plugins/planning.md).

**Tools of the client.** `client_tools` of `chat.send` are tools that the client runs. What they
say of themselves in `flags` can only make policy stricter: `true` is believed, and `false` is
unknown, as what is left out is, unless `gateway.believe_client_flags` names the principal. One
that has the name of a tool of the gateway, or of another in the request, is refused with
`client_tool_taken` before anything is committed.

What is judged of a call of such a tool is that its arguments leave to the client. So in the profile
`balanced` it runs, unless the turn has read what others wrote, or no person's message led to it, or
a rule (`match: {{owner: client}}`) says otherwise. A call of a tool that the request brings none of
the name of, and the gateway neither, reaches the client of a request with `client_tools`, judged
as one of which nothing is declared.

**Events of the gateway.** `events.subscribe` shows events of turns, and what happens beside them,
as notifications `event` with `type`, `turn`, `session`, `seq` (its number in the turn), `at` and
`data`. An event has a scope and an audience, and is shown to a principal of both. Events of a turn,
and of the turns nested in it, are for those whose bindings cover the address at which its message
came in, and for the scope `operate`; a question (`approval`) only for those of the scope `approve`
who may answer it: bindings and `approvers` alike, operators not excepted. The client of a turn gets
all events of that turn whatever its scopes, as above. Beside turns there are, for the scope `read`:

| type | data |
|---|---|
| `degraded` | `part`, `why`: it does not work as it should |
| `recovered` | `part`: it does again |
| `notice` | `part`, `what`: worth an operator's look, though nothing is wrong |
| `reloaded` | `changed`, `restart`: what was read again, and what waits for a restart |
| `cards_reloaded` | `added`, `removed`, `changed`: ids, after a change in a watched folder |
| `card_changed` | `card`, `source`, `before` and `after` (digests), `approved` |
| `inventory_changed` | `id`, `action`, `status`: a capability was changed |
| `capabilities_indexed` | `version`, `capabilities`, `vectors`: the index was made anew |
| `outcome_alert` | turns go badly: `scopeKey`, `severity` (`warning` or `critical`), `reason`,\
 `threshold`, `value`, `sampleCount` |
| `outcome_plans` | `scopeKey`, `degraded`: whether plans are changed because of that |

For the scope `operate` there is `hook_failed`: `plugin`, `hook`, `message`, and whether the hook
was `skipped` (`hookgate chat` shows those); and `log` with `last`: the log has new lines, up to
that number; four times a second at most. `log.tail` has them.

**Notifications without a request.** `stopping` with `seconds`: the gateway takes nothing new and
lets turns finish for so long. Streams over HTTP get it as an event. A message that is refused then
(-32011, 503) has not begun; `retry_after` (`Retry-After`) says when to send it again. Answers say
`Connection: close` from the moment a gateway has been told to stop.

**A client that does not read.** {LIMITS.queue_frames} frames (`limits.queue_frames`) or
{QUEUE_BYTES} bytes may wait for it; one more closes it. Events are never dropped in silence.

**A client that goes away.** Its turns are cancelled, or finished where `gateway.on_disconnect`
says so. The gateway sends a ping every `limits.heartbeat_seconds`, and lets a client go that has
not answered by the next.

| close code | why |
|---|---|
| 1001 | the gateway stops |
| 1008 | no right token came, or the token was revoked or has expired |
| 1009 | a frame was longer than `limits.frame_bytes` ({LIMITS.frame_bytes}) |
| 1013 | the client reads too slowly; it may come back |

## HTTP

| route | what it does | who may use it |
|---|---|---|
| `POST /v1/NOUN/VERB` | calls the method `NOUN.VERB`; of a name without a dot, `/v1/NAME` | as\
 the method says |
| `POST /v1/operations/NAME` | calls the method NAME, whatever its name | as the method says |
| `GET /health` | `status` (`ok` or `degraded`) and `degraded`, the names of the parts | anybody |
| `GET /ready` | 200 while new work may be sent, else 503; [why](deploying.md#probes) | anybody |

Some methods have one more route; it stands below at the method. A body is a JSON
object, said to be `application/json`, at most `limits.frame_bytes` long; `GET` and `DELETE` take
their parameters from the query.

A method that streams answers `Accept: text/event-stream` with server-sent events: `event` is the
event's name and `data` its members as JSON; the result comes as the event `result`. A comment
breaks each 15 s of silence. What goes wrong before the first event has a status of its own; later
it is an event `error`. Without that header `POST /v1/turns` gives one answer, when the turn is
over; its status is 200 for every message that was committed, and `ending` says how it went:

@@answer@@

## Errors

Over WebSocket an error is JSON-RPC's: `code`, `message` for people, and `data` with `code` (a
stable word: the name below, or a more exact one), `action` (what to do) and what else there is to
say. Over HTTP the same object stands in `error`, and the status is this:

| code | name | HTTP | when |
|---|---|---|---|
@@codes@@

## Methods

`operations.list` shows the methods that a client may call, those of its plugins among them, each
with the JSON Schema of its parameters and its result. Every method that comes with hookgate
stands below.

@@methods@@

## Shapes

What stands in several places above.

@@shapes@@
"""


async def all_operations() -> list[Operation[Any, Any]]:
    """Return the operations of a gateway with all that comes with hookgate, by name."""
    with TemporaryDirectory() as home:
        settings = Settings.model_validate(
            {"home": home, "plugins": {"entry_points": False}, "log": {"level": "error"}}
        )
        async with Gateway(settings) as gateway:
            known = gateway.host.operations.items()
            return [one for name, one in sorted(known) if name == one.name]


class Shapes:
    """The shapes of parameters and results: those that stand in more than one place have a name.

    A shape that stands in one place is told there; one that stands in several is told once, and
    linked from each.
    """

    def __init__(self, models: Sequence[type[Any]]) -> None:
        self._known: dict[str, Mapping[str, Any]] = {}
        self._named_so: dict[str, list[str]] = {}
        self._open: dict[str, bool] = {}
        self._places: Counter[str] = Counter()
        for model in models:
            self._place(self._named(model))

    def _named(self, model: type[Any]) -> str:
        schema = schema_of(model)
        every = {**schema.get("$defs", {}), model.__name__: schema}
        names = {name: self._name(name, every) for name in every}
        for name, one in every.items():
            bare = {key: value for key, value in one.items() if key != "$defs"}
            self._known.setdefault(names[name], _renamed(bare, names))
        own = names[model.__name__]
        self._open[own] = getattr(model, "model_config", {}).get("extra") == "allow"
        return own

    def _name(self, name: str, every: Mapping[str, Mapping[str, Any]]) -> str:
        """Return the name of a shape: its class's, and a number where another one has that."""
        whole = json.dumps(
            {one: every[one] for one in sorted(_within(name, every))}, sort_keys=True
        )
        known = self._named_so.setdefault(name, [])
        if whole not in known:
            known.append(whole)
        number = known.index(whole)
        return f"{name}{number + 1}" if number else name

    def _place(self, name: str) -> None:
        self._places[name] += 1
        if self._places[name] == 1:
            for part in self._known[name].get("properties", {}).values():
                for inner in refs(part):
                    self._place(inner)

    def is_shared(self, name: str) -> bool:
        """Whether a shape stands in more than one place, and has members."""
        return self._places[name] > 1 and bool(self._known[name].get("properties"))

    def table(self, heading: str, model: type[Any]) -> str:
        """Return a table of a model's members, or the link to where it is."""
        name = self._named(model)
        if self.is_shared(name):
            return f"{heading.capitalize()}: {link(name)}."
        return self.rows(heading, name)

    def rows(self, heading: str, name: str) -> str:
        """Return a table of the members of a shape, with those of members that stand here alone."""
        rows = [f"| {heading} | type | default | |", "|---|---|---|---|"]
        for member, types, default, told in self.members(name):
            rows.append(f"| `{member}` | {types} | {default} | {told} |")
        if self._open.get(name):
            rows.append("| ... | any | | and more |")
        return "\n".join(rows)

    def members(self, name: str, prefix: str = "") -> Iterator[tuple[str, str, str, str]]:
        """Yield name, type, default and description of each member, at any depth."""
        schema = self._known[name]
        required = schema.get("required", ())
        for member, part in schema.get("properties", {}).items():
            told = " ".join(part.get("description", "").split())
            if member in required:
                default = "required"
            else:
                default = f"`{json.dumps(part['default'])}`" if "default" in part else ""
            yield f"{prefix}{member}", self.words(part), default, told.replace("|", "\\|")
            inner, suffix = part, "."
            if part.get("type") == "array":
                inner, suffix = part.get("items", {}), "[]."
            if "$ref" in inner and not self.is_shared(named := shape_of(inner)):
                yield from self.members(named, f"{prefix}{member}{suffix}")

    def words(self, schema: Mapping[str, Any]) -> str:
        """Return a type in a few words."""
        if "anyOf" in schema:
            return " or ".join(self.words(one) for one in schema["anyOf"])
        if "$ref" in schema:
            name = shape_of(schema)
            if self.is_shared(name):
                return link(name)
            inner = self._known[name]
            return "object" if "properties" in inner else self.words(inner)
        if "const" in schema:
            return f"`{json.dumps(schema['const'])}`"
        if "enum" in schema:
            return ", ".join(f"`{value}`" for value in schema["enum"])
        kind = str(schema.get("type", "any"))
        if kind == "array":
            return f"array of {self.words(schema.get('items', {}))}"
        values = schema.get("additionalProperties")
        if isinstance(values, Mapping) and any(map(self.is_shared, refs(values))):
            return f"object of {self.words(values)}"
        return kind

    def page(self) -> str:
        """Return the shapes that have a name, in the order of their names."""
        return "\n\n".join(
            f"### {name}\n\n{self.rows('member', name)}"
            for name in sorted(self._known)
            if self.is_shared(name)
        )


def _within(name: str, every: Mapping[str, Mapping[str, Any]]) -> set[str]:
    """Return a shape and those that it is made of, at any depth."""
    found, left = {name}, [name]
    while left:
        for part in every[left.pop()].get("properties", {}).values():
            fresh = set(refs(part)) - found
            found |= fresh
            left += fresh
    return found


def _renamed(schema: Any, names: Mapping[str, str]) -> Any:
    if isinstance(schema, Mapping):
        return {
            key: f"#/$defs/{names[shape_of(schema)]}" if key == "$ref" else _renamed(one, names)
            for key, one in schema.items()
        }
    return [_renamed(one, names) for one in schema] if isinstance(schema, list) else schema


def refs(schema: Mapping[str, Any]) -> Iterator[str]:
    """Yield the names of the shapes that a member is of, or holds."""
    if "$ref" in schema:
        yield shape_of(schema)
    for inner in (
        *schema.get("anyOf", ()),
        schema.get("items"),
        schema.get("additionalProperties"),
    ):
        if isinstance(inner, Mapping):
            yield from refs(inner)


def shape_of(schema: Mapping[str, Any]) -> str:
    """Return the name of the shape that a reference is to."""
    return str(schema["$ref"]).rpartition("/")[2]


def link(name: str) -> str:
    """Return the link to a shape."""
    return f"[{name}](#{name.lower()})"


def page(operations: Sequence[Operation[Any, Any]]) -> str:
    """Return the whole page."""
    codes = "\n".join(
        f"| {code.number} | `{code.name}` | {code.status} | {code.meaning} |" for code in CODES
    )
    models = [model for one in operations for model in (one.params, one.result)]
    shapes = Shapes([AuthParams, AuthResult, Answer, *models])
    auth = [
        "### `auth`",
        "The first frame of a socket that has shown no token; no method of any other.",
        shapes.table("parameter", AuthParams),
        shapes.table("result", AuthResult),
    ]
    methods = [
        "\n\n".join(auth),
        *("\n\n".join(method(one, shapes)) for one in operations),
    ]
    return (
        TEXT.replace("@@codes@@", codes)
        .replace("@@answer@@", shapes.table("answer", Answer))
        .replace("@@methods@@", "\n\n".join(methods))
        .replace("@@shapes@@", shapes.page())
    )


def method(operation: Operation[Any, Any], shapes: Shapes) -> Iterator[str]:
    """Yield the paragraphs of one method."""
    yield f"### `{operation.name}`"
    scope = f"Scope `{operation.scope}`." if operation.scope else "No scope needed."
    facts = [operation.summary, scope]
    if operation.plugin != "control":
        facts.append(f"Brought by the plugin `{operation.plugin}`.")
    if operation.streams:
        facts.append("Streams.")
    routes = dict.fromkeys([("POST", operation.path), operation.rest or ("POST", operation.path)])
    facts.append(", ".join(f"`{' '.join(route)}`" for route in routes) + ".")
    if operation.also:
        former = ", ".join(f"`{name}`" for name in operation.also)
        facts.append(f"Its former name works as well: {former}.")
    yield " ".join(facts)
    if operation.params.model_fields:
        yield shapes.table("parameter", operation.params)
    else:
        yield "No parameters."
    yield shapes.table("result", operation.result)


def main() -> None:
    """Write the page."""
    PAGE.write_text(page(asyncio.run(all_operations())), encoding="utf-8")


if __name__ == "__main__":
    main()
