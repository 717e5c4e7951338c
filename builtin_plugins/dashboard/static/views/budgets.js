// Budgets and limits: how far each is used, how fast, and when it ends.

import { Button, Command, Field, Meter, Table, Text, Time, Wrong, html, useAction, useGate, useOperation, useState } from "../lib/parts.js";

const SCOPES = ["global", "agent", "channel", "account", "key", "session", "tool", "plugin", "heartbeat"];
const HOUR = 3_600_000;

export function Budgets() {
  const gate = useGate();
  const { data, problem, again } = useOperation("budgets.show", gate.may("read") ? { limit: 1000 } : null, { on: ["notice"], every: 10_000 });
  const [raised, setRaised] = useState("");
  const { busy, problem: refused, run } = useAction(async (method, params) => {
    const { done } = await gate.call(method, params);
    setRaised(done);
    again();
  });
  const paused = Object.entries(data?.paused ?? {});
  return html`<section><h3>Budgets and limits</h3>
    <${Wrong} problem=${refused ?? problem} />
    <p role="status" class="good"><${Text} text=${raised} /></p>
    ${paused.map(([session, why]) => html`<p class="wrong" key=${session}>Paused: <${Text} text=${session} />, <${Text} text=${why} />${" "}
      <${Button} scope="operate" busy=${busy} onClick=${() => run("budgets.resume", { session })}>Resume<//></p>`)}
    <${Table} label="Budgets" rows=${data?.budgets} keyOf=${(one) => `${one.name} ${one.limit}`}
      empty="Nothing is limited. A budget of the form below holds at once, at every gateway on the store."
      columns=${[
        ["Name", (one) => html`<${Text} text=${one.name} /><br /><span class="faint">${one.source}</span>`],
        ["Of", (one) => html`<${Text} text=${one.scope === "global" ? "all calls" : `each ${one.scope} like ${one.of}`} />`],
        ["Limit", (one) => html`<${Text} text=${one.limit} /> <span class="faint"><${Text} text=${one.window} /></span>`],
        ["Beyond it", (one) => one.over],
        ["Used", (one) => html`<${Counters} budget=${one} run=${run} busy=${busy} />`],
        ["", (one) => (["turn", "day", "month"].includes(one.window) ? html`<${Button} scope="operate" kind="small" busy=${busy}
          onClick=${() => run("budgets.remove", { name: one.name })}>Remove<//>` : html`<span class="faint">in the settings</span>`)],
      ]} />
    <${Setting} run=${run} busy=${busy} />
    <${Command} text="hookgate budgets show" /></section>`;
}

const SHOWN = 5;

function Counters({ budget, run, busy }) {
  const [all, setAll] = useState(false);
  const counters = all ? budget.counters : budget.counters.slice(0, SHOWN);
  if (!counters.length) return html`<span class="faint">nothing so far</span>`;
  return html`${counters.map((one) => html`<div key=${one.key}>
      <${Text} text=${one.key.split("/")[1] === "global:*" ? "" : `${one.key.split("/")[1]} `} />${one.used} of <${Text} text=${one.limit} />
      <${Meter} share=${one.share} label=${`${Math.round(100 * one.share)}% used`} />
      <span class="faint"><${Forecast} window=${budget.window} counter=${one} /></span>
      ${spanOf(budget.window, new Date()) ? html`<${Raise} counter=${one} run=${run} busy=${busy} />` : null}</div>`)}
    ${budget.counters.length > SHOWN && !all ? html`<button type="button" class="small"
      onClick=${() => setAll(true)}>all ${budget.counters.length}</button>` : null}`;
}

/** When a window of now begins and ends, in UTC; null where time does not end it.
 * @param {string} window @param {Date} now */
export function spanOf(window, now) {
  const [year, month, day] = [now.getUTCFullYear(), now.getUTCMonth(), now.getUTCDate()];
  if (window === "day") return [Date.UTC(year, month, day), Date.UTC(year, month, day + 1)];
  if (window === "month") return [Date.UTC(year, month), Date.UTC(year, month + 1)];
  return null;
}

/** How fast it burns, and when it ends if that goes on. */
function Forecast({ window, counter: { share, used } }) {
  const now = new Date();
  const span = spanOf(window, now);
  if (!span) return null;
  const [begins, ends] = span;
  const until = new Date(ends).toISOString();
  if (share >= 1) return html`used up; begins anew <${Time} at=${until} />`;
  if (!share) return html`begins anew <${Time} at=${until} />`;
  const hours = Math.max(now.valueOf() - begins, 1) / HOUR;
  const pace = Number(used.replace(/[$,]/g, "")) / hours;
  const said = `${used.startsWith("$") ? "$" : ""}${pace.toLocaleString("en", { maximumSignificantDigits: 3 })} an hour`;
  const at = begins + (hours * HOUR) / share;
  return at < ends
    ? html`${said}: <span class="bad">ends <${Time} at=${new Date(at).toISOString()} /></span>`
    : html`${said}: ${Math.round((100 * share * (ends - begins)) / (hours * HOUR))}% when it begins anew <${Time} at=${until} />`;
}

function Raise({ counter, run, busy }) {
  const [more, setMore] = useState("");
  const [shown, show] = useState(false);
  if (!shown) return html` <button type="button" class="small" onClick=${() => show(true)}>Raise…</button>`;
  return html`<div class="bar"><${Field} label=${counter.limit.startsWith("$") ? "US dollars more, until it begins anew" : "More, until it begins anew"}
      type="number" value=${more} onInput=${setMore} />
    <${Button} scope="operate" busy=${busy} why=${Number(more) > 0 ? "" : "How much more?"}
      onClick=${() => run("budgets.raise", { key: counter.key, more })}>Raise<//></div>`;
}

const EMPTY = { name: "", scope: "global", of: "*", window: "day", tokens: "", usd: "", warn_at: "0.8", over: "refuse" };

function Setting({ run, busy }) {
  const [given, setGiven] = useState(EMPTY);
  const field = (label, name, more) => html`<${Field} label=${label} value=${given[name]} ...${more}
    onInput=${(value) => setGiven({ ...given, [name]: value })} />`;
  const set = () => {
    const { tokens, usd, warn_at, ...rest } = given;
    return run("budgets.set", { ...rest, warn_at: Number(warn_at), ...(tokens ? { tokens: Number(tokens) } : {}), ...(usd ? { usd } : {}) });
  };
  return html`<details><summary>Set a budget</summary><div class="bar">
    ${field("Name", "name")}${field("Scope", "scope", { options: SCOPES })}${field("Of those like", "of")}
    ${field("Window", "window", { options: ["turn", "day", "month"] })}${field("Tokens", "tokens", { type: "number" })}
    ${field("US dollars", "usd", { type: "number" })}${field("Warn at", "warn_at", { type: "number" })}
    ${field("Beyond it", "over", { options: ["refuse", "fallback", "ask"] })}
    <${Button} scope="operate" kind="primary" busy=${busy} onClick=${set}
      why=${given.name && (given.tokens || given.usd) ? "" : "Needs a name, and tokens or US dollars."}>Set<//></div></details>`;
}
