// A tool that reads one field of a JSON document on the web, in AssemblyScript.

import { Json, Kind, answer, http, request, toolError, toolText } from "../../../builtin_plugins/wasm/kits/assemblyscript/hookgate";
export { alloc } from "../../../builtin_plugins/wasm/kits/assemblyscript/hookgate";

export function describe(at: usize, len: usize): u64 {
  const tool = Json.object().put("name", Json.of("json_field"));
  return answer(
    Json.object()
      .put("name", Json.of("http-assemblyscript"))
      .put("version", Json.of("1.0.0"))
      .put("tools", Json.list([tool])),
  );
}

export function handle_tool_call(at: usize, len: usize): u64 {
  const input = request(at, len).get("input");
  return answer(field(input.get("url").text(), input.get("field").text()));
}

function field(url: string, path: string): Json {
  if (url == "" || path == "") {
    return toolError('json_field needs a URL and a field: {"url": "https://...", "field": "user.name"}');
  }
  const accepted = Json.object().put("accept", Json.of("application/json"));
  const asked = Json.object().put("url", Json.of(url)).put("method", Json.of("GET")).put("headers", accepted);
  const came = http(asked);
  const response = came.get("ok");
  if (response.isNull()) {
    return toolError("The request was not made: " + came.get("error").get("message").text("no reason was given"));
  }
  const status = response.get("status").int();
  if (status != 200) {
    return toolError("The server answers with status " + status.toString() + ".");
  }
  const document = Json.read(response.get("body").text());
  return document == null ? toolError("What is there is no JSON.") : found(document, path);
}

/** Follows `user.emails.0`: names in objects, numbers in lists. */
function found(document: Json, path: string): Json {
  const steps = path.split(".");
  let value = document;
  for (let i = 0; i < steps.length; i++) {
    const step = steps[i];
    if (value.kind == Kind.List) {
      const index = I32.parseInt(step);
      value = value.at(index.toString() == step ? index : -1);
    } else if (value.keys.includes(step)) {
      value = value.get(step);
    } else {
      return toolError("The document has no " + steps.slice(0, i + 1).join(".") + ".");
    }
  }
  return toolText(value.kind == Kind.Text ? value.written : value.toString());
}
