// Plugins: why each runs, what its hooks cost, and what they do while one chats.

import { Button, Command, Download, Field, Table, Text, Time, Wrong, commandOf, html, useAction, useFilter, useGate, useOperation } from "../lib/parts.js";

/** @param {number} milliseconds */
const took = (milliseconds) => `${milliseconds < 10 ? milliseconds.toFixed(2) : Math.round(milliseconds)} ms`;
const failed = (count) => html`<span class=${count ? "bad" : ""}>${count}</span>`;
const number = (title, show) => [title, (row) => show(row) ?? html`<span class="faint">–</span>`, "number"];

/** All plugins, or one of them. @param {{rest: string[]}} given */
export function Plugins({ rest }) {
  return rest[0] ? html`<${Plugin} name=${rest[0]} />` : html`<${All} />`;
}

/** What hooks cost; asking has them timed. */
function useCosts(params, every) {
  return useOperation("plugins.costs", useGate().may("operate") ? params : null, { every });
}

function All() {
  const [filter, change] = useFilter();
  const { data, problem } = useOperation("plugins.list");
  const costs = useCosts({}, 5_000);
  const why = useWhy();
  const wanted = filter.name ?? "";
  const of = new Map(costs.data?.plugins.map((cost) => [cost.plugin, cost]));
  const rows = data?.plugins.filter(({ name }) => name.includes(wanted)).map((plugin) => ({ ...plugin, cost: of.get(plugin.name) }));
  return html`<div><${Wrong} problem=${problem ?? costs.problem ?? why.problem} />
    <div class="bar"><${Field} search label="Name" value=${wanted} onInput=${(name) => change({ name })} />
      <${Download} rows=${rows} name="plugins" /></div>
    <p role="status">${why.result && html`<strong><${Text} text=${why.result.name} /></strong>: <${Text} text=${why.result.why} />`}</p>
    <${Timed} costs=${costs} />
    <${Table} label="Plugins" rows=${rows} keyOf=${(row) => row.name} empty=${wanted ? html`No plugin has this in its name. <a href="#/system/plugins">Show all</a>` : "No plugin runs."} columns=${[
      ["Name", (row) => html`<a href=${`#/system/plugins/${encodeURIComponent(row.name)}`}><${Text} text=${row.name} /></a>`],
      ["Origin", (row) => html`<${Text} text=${`${row.origin} ${row.version}`} />`],
      ["State", (row) => html`<span class=${row.state === "running" ? "good" : "bad"}>${row.state}</span> <${Text} text=${row.reason} />`],
      number("Calls", ({ cost }) => cost?.calls),
      number("Time", ({ cost }) => cost && took(cost.milliseconds)),
      number("p95", ({ cost }) => cost && took(cost.p95)),
      number("Failed", ({ cost }) => cost && failed(cost.failures)),
      ["Slowest", ({ cost }) => html`<${Text} text=${cost?.slowest ?? ""} />`],
      ["", (row) => html`<${Button} scope="read" busy=${why.busy} onClick=${() => why.run(row.name)}>Why<//>`],
    ]} />
    <${Command} text="hookgate plugins costs" /></div>`;
}

function useWhy() {
  const gate = useGate();
  return useAction(async (name) => gate.call("plugins.why", { name }));
}

function Timed({ costs }) {
  if (!useGate().may("operate")) return html`<p class="faint">What hooks cost is for those with the scope operate.</p>`;
  return costs.data && html`<p class="faint">Hooks are timed since <${Time} at=${costs.data.since} />, and for two minutes after this page is left.</p>`;
}

/** One plugin: its hooks, and their calls as they come. */
function Plugin({ name }) {
  const listed = useOperation("plugins.list");
  const costs = useCosts({ plugin: name, limit: 100 }, 2_000);
  const why = useOperation("plugins.why", { name });
  const plugin = listed.data?.plugins.find((one) => one.name === name);
  const back = html`<a href="#/system/plugins">All plugins</a>`;
  if (listed.data && !plugin) return html`<div><p class="empty">There is no plugin “<${Text} text=${name} />”. ${back}</p></div>`;
  const of = new Map(costs.data?.plugins[0]?.hooks.map((hook) => [hook.hook, hook]));
  const rows = plugin && [...new Set([...of.keys(), ...plugin.hooks])].map((hook) => ({ hook, ...of.get(hook) }));
  return html`<div><p>${back}</p><${Wrong} problem=${listed.problem ?? costs.problem} />
    <h4><${Text} text=${name} /></h4>
    <p>${why.data && html`<${Text} text=${why.data.why} />`}</p>
    ${plugin?.idle.length ? html`<p class="bad"><${Text} text=${plugin.idle.join("; ")} /></p>` : null}
    <${Timed} costs=${costs} />
    <${Table} label="Hooks" rows=${rows} keyOf=${(row) => row.hook} empty="It implements no hook." columns=${[
      ["Hook", (row) => html`<${Text} text=${row.hook} />`],
      number("Calls", (row) => row.calls),
      number("Time", (row) => row.calls && took(row.milliseconds)),
      number("p95", (row) => row.calls && took(row.p95)),
      number("Slowest", (row) => row.calls && took(row.slowest)),
      number("Failed", (row) => row.calls && failed(row.failures)),
    ]} />
    <h4>Last calls</h4><div class="bar"><${Download} rows=${costs.data?.calls} name=${`calls of ${name}`} lines /></div>
    ${costs.data && html`<${Table} label="Last calls" rows=${costs.data.calls}
      empty=${html`None of its hooks was called since then. <a href="#/chat">Say something</a>, and come back: calls are shown as they come.`} columns=${[
        ["When", (row) => html`<${Time} at=${row.at} />`],
        ["Hook", (row) => html`<${Text} text=${row.hook} />`],
        ["Took", (row) => took(row.milliseconds), "number"],
        ["Returned", (row) => html`<span class=${row.failed ? "bad" : ""}><${Text} text=${row.returned} /></span>`],
        ["Turn", (row) => row.turn && html`<a href=${`#/turns/${encodeURIComponent(row.turn)}`}>waterfall</a>`],
      ]} />`}
    <${Command} text=${commandOf("hookgate plugins costs", { "": name })} /></div>`;
}
