// One story with npm's `ai` and one of its providers: node node_ai.mjs URL KEY MODEL WIRE STORY; JSON out.
import { createAnthropic } from "@ai-sdk/anthropic";
import { createOpenAI } from "@ai-sdk/openai";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { APICallError, generateText, jsonSchema, stepCountIs, streamText, tool } from "ai";

const [url, key, name, wire, story] = process.argv.slice(2);
const asked = story === "error" ? "nobody/nothing" : name;
const model = {
  chat: () => createOpenAICompatible({ name: "gate", baseURL: `${url}/v1`, apiKey: key })(asked),
  responses: () => createOpenAI({ baseURL: `${url}/v1`, apiKey: key }).responses(asked),
  messages: () => createAnthropic({ baseURL: `${url}/v1`, authToken: key })(asked),
}[wire]();
const calls = [];
const look = (name) =>
  tool({
    description: "Looks something up.",
    inputSchema: jsonSchema({ type: "object", properties: { place: { type: "string" } }, required: ["place"] }),
    execute: async (input) => {
      calls.push([name, input]);
      return "4 degrees";
    },
  });
const ask = { model, system: "Be brief.", prompt: "How is Oslo?", maxRetries: 0 };

let said;
try {
  if (story === "streamed") {
    const stream = streamText(ask);
    let text = "";
    for await (const piece of stream.textStream) text += piece;
    said = { text, finish: await stream.finishReason };
  } else if (story === "plain" || story === "error") {
    said = { text: (await generateText(ask)).text };
  } else {
    const tools = { weather: look("weather"), clock: look("clock") };
    const done = await generateText({ ...ask, tools, stopWhen: stepCountIs(4) });
    said = { calls, text: done.text };
  }
} catch (error) {
  if (!APICallError.isInstance(error)) throw error;
  said = { error: error.name, status: error.statusCode, text: error.message };
}
console.log(JSON.stringify(said));
