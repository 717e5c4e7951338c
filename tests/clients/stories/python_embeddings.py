"""Vectors with the SDK `openai`: ``python_embeddings.py URL KEY MODEL``; prints JSON."""

from __future__ import annotations

import json
import sys

from openai import OpenAI

url, key, model = sys.argv[1:]
client = OpenAI(base_url=f"{url}/v1", api_key=key, max_retries=0)
said = {}
# Of its own accord the SDK asks for base64, and takes it apart.
for form in ("float", None):
    more = {"encoding_format": form} if form else {}
    made = client.embeddings.create(model=model, input=["a", "bcd"], **more)
    said[form or "packed"] = [one.embedding for one in made.data]
print(json.dumps({**said, "model": made.model, "tokens": made.usage.total_tokens}))
