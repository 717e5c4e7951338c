// One story with npm's `@anthropic-ai/sdk`: node node_anthropic.mjs URL KEY MODEL WIRE STORY; JSON out.
import Anthropic from "@anthropic-ai/sdk";

const [url, key, model, , story] = process.argv.slice(2);
const client = new Anthropic({ baseURL: url, authToken: key });
const input_schema = { type: "object", properties: { place: { type: "string" } }, required: ["place"] };
const tools = ["weather", "clock"].map((name) => ({ name, description: "Looks something up.", input_schema }));
const messages = [{ role: "user", content: "How is Oslo?" }];
const ask = { model, max_tokens: 1000, system: "Be brief.", messages };
const textOf = (message) => message.content.map((block) => block.text ?? "").join("");

async function told() {
  switch (story) {
    case "plain": {
      const done = await client.messages.create(ask);
      return { text: textOf(done), usage: done.usage.output_tokens };
    }
    case "streamed":
    case "cancel": {
      const stream = client.messages.stream(ask);
      let text = "";
      for await (const event of stream) {
        text += event.delta?.text ?? "";
        if (story === "cancel" && text) return { text };
      }
      const final = await stream.finalMessage();
      return { text, stop: final.stop_reason, usage: final.usage.output_tokens };
    }
    case "error":
      await client.messages.create({ ...ask, model: "nobody/nothing" });
      return { error: null };
    default: {
      const first = await client.messages.create({ ...ask, tools });
      const uses = first.content.filter((block) => block.type === "tool_use");
      if (!uses.length) return { text: textOf(first), stop: first.stop_reason };
      const content = uses.map((use) => ({ type: "tool_result", tool_use_id: use.id, content: "4 degrees" }));
      const again = [...messages, { role: "assistant", content: first.content }, { role: "user", content }];
      const second = await client.messages.create({ ...ask, messages: again, tools });
      const thoughts = first.content.filter((block) => block.type === "thinking").map((block) => block.signature);
      return { calls: uses.map((use) => [use.name, use.input]), text: textOf(second), thoughts };
    }
  }
}

let said;
try {
  said = await told();
} catch (error) {
  if (!(error instanceof Anthropic.APIError)) throw error;
  said = { error: error.constructor.name, status: error.status, text: error.message };
}
console.log(JSON.stringify(said));
