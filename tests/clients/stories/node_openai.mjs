// One story with npm's `openai`: node node_openai.mjs URL KEY MODEL WIRE STORY; prints JSON.
import OpenAI from "openai";

const [url, key, model, wire, story] = process.argv.slice(2);
const client = new OpenAI({ baseURL: `${url}/v1`, apiKey: key });
const parameters = { type: "object", properties: { place: { type: "string" } }, required: ["place"] };
const functions = ["weather", "clock"].map((name) => ({ name, description: "Looks something up.", parameters }));
const messages = [{ role: "system", content: "Be brief." }, { role: "user", content: "How is Oslo?" }];

async function chat() {
  const tools = functions.map((one) => ({ type: "function", function: one }));
  switch (story) {
    case "plain": {
      const done = await client.chat.completions.create({ model, messages });
      return { text: done.choices[0].message.content, usage: done.usage.total_tokens };
    }
    case "streamed":
    case "cancel": {
      const options = { model, messages, stream: true, stream_options: { include_usage: true } };
      let text = "", usage = null, finish = null;
      for await (const chunk of await client.chat.completions.create(options)) {
        text += chunk.choices[0]?.delta.content ?? "";
        finish = chunk.choices[0]?.finish_reason ?? finish;
        usage = chunk.usage?.total_tokens ?? usage;
        if (story === "cancel" && text) return { text };
      }
      return { text, usage, finish };
    }
    case "error":
      await client.chat.completions.create({ model: "nobody/nothing", messages });
      return { error: null };
    default: {
      const first = (await client.chat.completions.create({ model, messages, tools })).choices[0];
      const uses = first.message.tool_calls ?? [];
      if (!uses.length) return { text: first.message.content, finish: first.finish_reason };
      const results = uses.map((use) => ({ role: "tool", tool_call_id: use.id, content: "4 degrees" }));
      const again = [...messages, first.message, ...results];
      const second = await client.chat.completions.create({ model, messages: again, tools });
      const calls = uses.map((use) => [use.function.name, JSON.parse(use.function.arguments)]);
      return { calls, text: second.choices[0].message.content };
    }
  }
}

async function responses() {
  const tools = functions.map((one) => ({ type: "function", strict: false, ...one }));
  const ask = { model, instructions: "Be brief.", input: "How is Oslo?", store: false };
  switch (story) {
    case "plain": {
      const done = await client.responses.create(ask);
      return { text: done.output_text, usage: done.usage.total_tokens };
    }
    case "streamed":
    case "cancel": {
      let text = "", last = null;
      for await (const event of await client.responses.create({ ...ask, stream: true })) {
        if (event.type === "response.output_text.delta") text += event.delta;
        if (story === "cancel" && text) return { text };
        last = event.type;
      }
      return { text, last };
    }
    case "error":
      await client.responses.create({ ...ask, model: "nobody/nothing" });
      return { error: null };
    default: {
      const first = await client.responses.create({ ...ask, tools });
      const uses = first.output.filter((item) => item.type === "function_call");
      if (!uses.length) return { text: first.output_text };
      const results = uses.map((use) => ({ type: "function_call_output", call_id: use.call_id, output: "4 degrees" }));
      const input = [{ role: "user", content: ask.input }, ...first.output, ...results];
      const second = await client.responses.create({ ...ask, input, tools });
      return { calls: uses.map((use) => [use.name, JSON.parse(use.arguments)]), text: second.output_text };
    }
  }
}

let said;
try {
  said = await { chat, responses }[wire]();
} catch (error) {
  if (!(error instanceof OpenAI.APIError)) throw error;
  said = { error: error.constructor.name, status: error.status, text: error.message };
}
console.log(JSON.stringify(said));
