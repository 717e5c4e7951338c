// What works, what waits for somebody, and what it costs today.

import { Command, Text, Wrong, html, money, useGate, useOperation } from "../lib/parts.js";

const TELLING = ["degraded", "recovered", "notice", "reloaded"];

export function Home() {
  const gate = useGate();
  const status = useOperation("status", {}, { on: TELLING, every: 10_000 });
  const questions = useOperation("approvals.list", gate.may("approve") ? {} : null, { on: ["approval"] });
  const today = new Date().toISOString().slice(0, 10);
  const usage = useOperation("usage", { since: today, limit: 1 }, { every: 30_000 });
  const sums = useOperation("turn.sums", { minutes: 15 }, { on: ["done"], every: 15_000, rest: 5_000 }).data;
  const accept = useOperation("accept.list", {}, { on: TELLING });
  const { data } = status;
  if (!data) return html`<${Wrong} problem=${status.problem} />`;
  const spent = usage.data?.whole;
  const waiting = questions.data?.approvals.length ?? 0;
  const waits = accept.data?.things.filter((one) => one.waits).length ?? 0;
  return html`
    <${Wrong} problem=${status.problem} />
    <section class="tiles" aria-label="Now">
      <${Tile} name="State" value=${data.ready ? (Object.keys(data.degraded).length ? "degraded" : "ready") : "not ready"}
        kind=${data.ready && !Object.keys(data.degraded).length ? "good" : "bad"} />
      <${Tile} name="Open questions" value=${waiting} to="#/approvals" kind=${waiting ? "bad" : ""} />
      <${Tile} name="Turns now" value=${data.turns} to="#/turns" />
      ${sums ? html`<${Tile} name="Turns a minute" value=${sums.a_minute} to="#/turns" />
        <${Tile} name="Failed" value=${sums.failed} to="#/turns?ending=failed" kind=${sums.failed ? "bad" : ""} />
        <${Tile} name="95 of 100 within" value=${`${Math.floor(sums.p95_ms).toLocaleString("en")} ms`} to=${`#/turns?slower=${Math.floor(sums.p95_ms)}`} />` : null}
      ${spent ? html`<${Tile} name="Spent today" value=${money(spent.cost_usd)} to="#/usage" />
        <${Tile} name="Calls today" value=${spent.calls} to=${`#/usage?since=${today}`} />` : null}
      <${Tile} name="Tools" value=${data.tools} to="#/capabilities" />
      <${Tile} name="Capabilities" value=${data.capabilities} to="#/capabilities" />
    </section>
    <${Standing} title="Degraded" of=${data.degraded} empty="Everything works as it should." />
    <${Standing} title="Notices" of=${data.notices} empty="Nothing to look at." />
    ${waits ? html`<p>${waits} things wait to be accepted. <a href="#/capabilities?show=accept">Look at them</a></p>` : null}
    ${sums ? html`<p class="faint">Turns of the last ${Math.round(sums.minutes)} minutes: ${sums.turns}, ${sums.refused} refused, ${sums.cancelled} cancelled.</p>` : null}
    <p class="faint">hookgate ${data.version}; agents ${data.agents.join(", ")}; providers ${data.providers.join(", ") || "none"};${" "}
      <a href="#/system">${data.plugins.length} plugins</a>.</p>
    <${Command} text="hookgate status" />`;
}

function Tile({ name, value, to = "", kind = "" }) {
  const shown = html`<span class="faint">${name}</span><strong class=${kind}>${value}</strong>`;
  return to ? html`<a class="tile" href=${to}>${shown}</a>` : html`<div class="tile">${shown}</div>`;
}

function Standing({ title, of, empty }) {
  const parts = Object.entries(of);
  return html`<section><h3>${title}</h3>${parts.length
    ? html`<dl class="standing">${parts.map(([part, why]) => html`<dt><${Text} text=${part} /></dt><dd><${Text} text=${why} /></dd>`)}</dl>`
    : html`<p class="empty">${empty}</p>`}</section>`;
}
