// What model calls have used and cost, what they may cost, and what models are charged at.

import { Command, Download, Field, Meter, Table, Text, Wrong, html, money, shell, useFilter, useGate, useOperation } from "../lib/parts.js";
import { Budgets } from "./budgets.js";
import { Prices } from "./prices.js";

const BY = ["model", "agent", "plugin", "key", "day", "month", "session", "channel", "account", "principal", "cause", "tool", "provider"];
const NARROW = BY.filter((name) => name !== "day" && name !== "month");

/** A link may name a month as well, which a field for days does not take. */
const dayType = (text = "") => (/^(\d{4}-\d\d-\d\d)?$/.test(text) ? "date" : "text");

const count = (number) => number.toLocaleString("en");

export function Usage() {
  const gate = useGate();
  const [filter, change] = useFilter();
  const narrow = Object.fromEntries(NARROW.filter((name) => name in filter).map((name) => [name, filter[name]]));
  const by = filter.by ?? "model";
  const limit = Number(filter.limit ?? 100);
  const params = { by, since: filter.since ?? "", until: filter.until ?? "", limit, ...narrow };
  const { data, problem } = useOperation("usage", gate.may("read") ? params : null, { every: 30_000 });
  const words = Object.entries({ by, since: filter.since, until: filter.until, ...narrow }).filter(([, value]) => value);
  if (!gate.may("read")) return html`<p class="empty">What is used is for those with the scope read.</p>`;
  return html`
    <div class="bar">
      <${Field} label="By" value=${by} options=${BY} onInput=${(value) => change({ by: value })} />
      <${Field} label="From" type=${dayType(filter.since)} search value=${filter.since ?? ""} onInput=${(since) => change({ since })} />
      <${Field} label="To" type=${dayType(filter.until)} value=${filter.until ?? ""} onInput=${(until) => change({ until })} />
      ${Object.entries(narrow).map(([name, value]) => html`<button type="button" class="small" title="Take this filter away"
        onClick=${() => change({ [name]: "" })}>${name}: <${Text} text=${value} /> ×</button>`)}
      <${Download} name="usage" rows=${data?.groups.map(({ of, ...sums }) => ({ ...of, ...sums }))} />
    </div>
    <${Wrong} problem=${problem} />
    ${problem && problem.code !== "away" ? html`<p class="empty">Nothing can be shown for this filter. <a href="#/usage">Usage without a filter</a></p>` : null}
    ${data ? html`<${Sums} data=${data} />
      <${Days} days=${data.days} />
      <${Table} label=${`Usage by ${by}`} rows=${data.groups} keyOf=${(group) => JSON.stringify(group.of)}
        empty=${html`No model was called in this time. A message in the <a href="#/chat">chat</a> is the first one.`}
        columns=${[
          ...data.by.map((name) => [name, (group) => html`<${Group} by=${name} value=${group.of[name]} change=${change} />`]),
          ["Calls", (group) => count(group.calls), "number"],
          ["Failed", (group) => count(group.failed + group.refused), "number"],
          ["Input", (group) => count(group.input_tokens), "number"],
          ["Output", (group) => count(group.output_tokens), "number"],
          ["Cost", (group) => money(group.cost_usd), "number"],
          ["Share", (group) => html`<${Meter} ...${shareOf(group, data.whole)} />`],
        ]} />
      ${data.more ? html`<p>${count(data.more)} more are not shown. <button type="button"
        onClick=${() => change({ limit: String(Math.min(limit * 10, 10_000)) })}>Show more</button></p>` : null}` : null}
    <${Command} text=${shell(["hookgate", "usage", ...words.flatMap(([name, value]) => [`--${name}`, value])])} />
    <${Budgets} />
    <${Prices} />`;
}

/** Of the cost; of tokens where nothing costs anything. */
function shareOf(group, whole) {
  const [part, all, what] = Number(whole.cost_usd) > 0
    ? [Number(group.cost_usd), Number(whole.cost_usd), "cost"]
    : [group.input_tokens + group.output_tokens, whole.input_tokens + whole.output_tokens, "tokens"];
  const share = all ? part / all : 0;
  // A single group is no budget that is used up.
  return { share: Math.min(share, 0.999), label: `${Math.round(100 * share)}% of the ${what}` };
}

function Group({ by, value, change }) {
  if (!value || !NARROW.includes(by)) return html`<${Text} text=${value || "none"} />`;
  return html`<button type="button" class="link" title=${`Only this ${by}`}
    onClick=${() => change({ [by]: value, by: by === "agent" ? "model" : "day" })}><${Text} text=${value} /></button>`;
}

const KINDS = [
  ["Read from the cache", "cache_read_tokens"], ["Written to the cache", "cache_write_tokens"], ["Reasoning", "reasoning_tokens"],
  ["Audio in", "audio_input_tokens"], ["Pictures in", "image_input_tokens"], ["Audio out", "audio_output_tokens"], ["Pictures out", "image_output_tokens"],
];

function Sums({ data: { whole, durable, waiting } }) {
  const tokens = whole.input_tokens + whole.output_tokens;
  const kinds = [["Input, all of it", "input_tokens"], ["Output, all of it", "output_tokens"], ...KINDS.filter(([, key]) => whole[key])];
  return html`
    <section class="tiles" aria-label="Sums">
      <${Tile} name="Spent" value=${money(whole.cost_usd)} />
      <${Tile} name="Saved by caching" value=${money(whole.saved_usd)} />
      <${Tile} name="Calls" value=${count(whole.calls)} />
      <${Tile} name="Tokens" value=${count(tokens)} />
      ${whole.failed || whole.refused ? html`<${Tile} name="Failed, refused" value=${`${count(whole.failed)}, ${count(whole.refused)}`} />` : null}
    </section>
    ${whole.unpriced ? html`<p class="wrong">${count(whole.unpriced)} calls are of a model without a known price, and are not in the cost: see the prices below.</p>` : null}
    ${durable ? null : html`<p class="wrong">Nothing is kept: these are the last calls of this process alone.</p>`}
    ${waiting ? html`<p class="faint">${count(waiting)} calls could not be recorded so far.</p>` : null}
    ${tokens ? html`<dl>${kinds.map(([name, key]) => html`<dt>${name}</dt><dd>${count(whole[key])} tokens
      <${Meter} share=${Math.min(whole[key] / tokens, 0.999)} label=${`${Math.round((100 * whole[key]) / tokens)}% of all tokens`} /></dd>`)}</dl>` : null}`;
}

const Tile = ({ name, value }) => html`<div class="tile"><span class="faint">${name}</span><strong>${value}</strong></div>`;

const DAY = 86_400_000;
const MOST_DAYS = 400;

/** A bar for each day, those without calls too. */
function Days({ days }) {
  if (days.length < 2) return null;
  const costs = days.some((day) => Number(day.cost_usd) > 0);
  const of = (day) => (costs ? Number(day.cost_usd) : day.input_tokens + day.output_tokens);
  const said = (amount) => (costs ? money(amount) : `${count(amount)} tokens`);
  const known = new Map(days.map((day) => [day.of.day, of(day)]));
  const [first, last] = [days[0].of.day, days[days.length - 1].of.day];
  const from = Math.max(Date.parse(first), Date.parse(last) - (MOST_DAYS - 1) * DAY);
  const bars = [];
  for (let at = from; at <= Date.parse(last); at += DAY) bars.push(new Date(at).toISOString().slice(0, 10));
  const most = Math.max(...bars.map((day) => known.get(day) ?? 0)) || 1;
  return html`<figure><svg class="bars" role="img" preserveAspectRatio="none" viewBox=${`0 0 ${bars.length} 100`}
      aria-label=${`${costs ? "Cost" : "Tokens"} of each day from ${first} to ${last}, at most ${said(most)}`}>
      ${bars.map((day, number) => {
        const height = (100 * (known.get(day) ?? 0)) / most;
        return html`<rect x=${number + 0.1} width=".8" y=${100 - height} height=${height}><title>${day}: ${said(known.get(day) ?? 0)}</title></rect>`;
      })}</svg>
    <figcaption class="faint">${bars[0]} to ${last}, by day; the highest is ${said(most)}.</figcaption></figure>`;
}
