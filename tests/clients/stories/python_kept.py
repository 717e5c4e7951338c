"""Kept responses with the SDK `openai`: ``python_kept.py URL KEY MODEL``; prints JSON."""

from __future__ import annotations

import json
import sys
import time

import openai
from openai import OpenAI

url, key, model = sys.argv[1:]
client = OpenAI(base_url=f"{url}/v1", api_key=key, max_retries=0)
first = client.responses.create(model=model, input="a")
shown = client.responses.retrieve(first.id)
with client.responses.stream(model=model, input="b", previous_response_id=first.id) as stream:
    second = stream.get_final_response()
items = [item.role for item in client.responses.input_items.list(second.id, order="asc", limit=2)]
left = client.responses.create(model=model, input="c", background=True)
begun = left.status
while left.status in ("queued", "in_progress"):
    time.sleep(0.05)
    left = client.responses.retrieve(left.id)
client.responses.delete(first.id)
try:
    client.responses.retrieve(first.id)
    gone = ""
except openai.NotFoundError as error:
    gone = type(error).__name__
said = {
    "same": shown.to_dict() == first.to_dict(),
    "texts": [one.output_text for one in (first, second, left)],
    "previous": second.previous_response_id == first.id,
    "items": items,
    "begun": begun,
    "ended": left.status,
    "background": left.background,
    "gone": gone,
}
print(json.dumps(said))
