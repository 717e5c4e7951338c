// What the gateway runs, what waits in it, and who may come in.

import { Button, Command, Table, Text, Time, Wrong, html, useAction, useGate, useOperation, useState } from "../lib/parts.js";
import { Log } from "./log.js";
import { Plugins } from "./plugins.js";
import { Settings } from "./settings.js";

const PARTS = {
  "": ["Overview", Overview, "status"],
  plugins: ["Plugins", Plugins],
  channels: ["Channels", Channels, "channels list"],
  schedules: ["Schedules", Schedules, "schedules list --runs 5"],
  tokens: ["Tokens", Tokens, "token list"],
  sandbox: ["Sandbox", Sandbox, "wasm list"],
  settings: ["Settings", Settings],
  log: ["Log", Log],
};
const TELLING = ["degraded", "recovered", "notice", "reloaded"];

export function System({ rest }) {
  const [title, Part, command] = PARTS[rest[0] ?? ""] ?? [];
  return html`
    <p class="bar">${Object.entries(PARTS).map(([path, [name]]) => html`<a href=${`#/system${path && `/${path}`}`}
      aria-current=${name === title ? "page" : null}>${name}</a>`)}</p>
    ${Part ? html`<div><h3>${title}</h3><${Part} rest=${rest.slice(1)} />${command && html`<${Command} text=${`hookgate ${command}`} />`}</div>`
      : html`<p class="empty">There is no part “<${Text} text=${rest[0]} />” of the system. <a href="#/system">Overview</a></p>`}`;
}

/** A button that does an operation, and what went wrong with it. */
function Does({ scope = "operate", name, params = {}, done, why, sure = "", children }) {
  const gate = useGate();
  const [asked, ask] = useState(false);
  const { busy, problem, run } = useAction(async () => {
    ask(false);
    const result = await gate.call(name, params);
    await done?.(result);
  });
  return html`<span><${Button} scope=${scope} busy=${busy} why=${why} onClick=${() => (sure ? ask(!asked) : run())}>${children}<//>
    ${asked ? html` <${Button} scope=${scope} kind="primary" onClick=${run}>${sure}<//>` : null}<${Wrong} problem=${problem} /></span>`;
}

function Overview() {
  const { data, problem, again } = useOperation("status", {}, { on: TELLING, every: 10_000 });
  const store = useOperation("db.status");
  const [read, setRead] = useState(null);
  return html`<div><${Wrong} problem=${problem ?? store.problem} />
    ${data && html`<p>hookgate ${data.version}, ${data.ready ? "ready" : "not ready"}; agents <${Text} text=${data.agents.join(", ")} />; providers <${Text} text=${data.providers.join(", ") || "none"} />.</p>
      <${Parts} title="Degraded" of=${data.degraded} empty="Everything works as it should." />
      <${Parts} title="Notices" of=${data.notices} empty="Nothing to look at." />`}
    <h4>Content</h4><p><${Does} name="reload" done=${(result) => { setRead(result); again(); }}>Reload<//> reads cards, manifests, souls, rules, agents and bindings again.</p>
    <div role="status">${read && html`<p><span class="good">Read again.</span> ${read.changed.tools} tools, ${read.changed.capabilities} capabilities, ${read.changed.cards} cards.${" "}
      ${read.restart.length ? html`These settings wait for a restart: <${Text} text=${read.restart.join(", ")} />.` : "No setting waits for a restart."}</p>`}</div>
    <h4>Store</h4>${store.data && html`<p><${Text} text=${store.data.place} />${store.data.durable ? "" : html`: <strong class="bad">not durable</strong> <${Text} text=${store.data.problem} />`}</p>`}
    <${Table} label="Tables" rows=${store.data?.tables} keyOf=${(row) => row.plugin} empty="No plugin has tables: nothing is kept." columns=${[
      ["Plugin", (row) => html`<${Text} text=${row.plugin} />`],
      ["Revision", (row) => html`<${Text} text=${row.version} />`],
      ["Newest", (row) => html`<${Text} text=${row.head} />`],
      ["State", (row) => (row.current ? html`<span class="good">current</span>` : html`<span class="bad">hookgate db upgrade</span>`)],
    ]} /></div>`;
}

function Parts({ title, of, empty }) {
  const parts = Object.entries(of);
  return html`<div><h4>${title}</h4>${parts.length
    ? html`<dl>${parts.map(([part, why]) => html`<dt><${Text} text=${part} /></dt><dd><${Text} text=${why} /></dd>`)}</dl>`
    : html`<p class="empty">${empty}</p>`}</div>`;
}

function Channels() {
  const gate = useGate();
  const listed = useOperation("channels.list", gate.may("operate") ? {} : null, { every: 10_000 });
  const letters = useOperation("channels.dead", gate.may("operate") ? {} : null, { every: 10_000 });
  const again = () => { listed.again(); letters.again(); };
  if (!gate.may("operate")) return html`<p class="empty">Channels are for those with the scope operate.</p>`;
  return html`<div><${Wrong} problem=${listed.problem ?? letters.problem} />
    <${Table} label="Channels" rows=${listed.data?.channels} keyOf=${(row) => row.name} empty=${html`No channel is hosted. A plugin that brings one, or <code>[plugin.channels]</code> in the settings, puts it here.`} columns=${[
      ["Name", (row) => html`<${Text} text=${row.name} />`],
      ["Way in", (row) => html`${row.connection} <${Text} text=${row.path} />${row.sandboxed ? " (sandbox)" : ""}${row.public ? ", strangers write here" : ""}`],
      ["Approvers", (row) => html`<${Text} text=${row.approvers.join(", ")} />`],
      ["Waiting", (row) => row.waiting],
      ["Unsent", (row) => row.unsent],
      ["Dead", (row) => html`<span class=${row.dead ? "bad" : ""}>${row.dead}</span>`],
      ["", (row) => html`<${Does} name=${row.paused ? "channels.resume" : "channels.pause"} params=${{ channel: row.name }} done=${again}>${row.paused ? "Resume" : "Pause"}<//>${" "}
        <${Does} name="channels.replay" params=${{ channel: row.name }} done=${again} why=${row.dead ? "" : "No letter is dead."}>Replay<//>`],
    ]} />
    <h4>Dead letters</h4>
    <${Table} label="Dead letters" rows=${letters.data?.letters} keyOf=${(row) => row.id} empty="Everything could be delivered." columns=${[
      ["Channel", (row) => html`<${Text} text=${row.channel} />`],
      ["To", (row) => html`<${Text} text=${`${row.account} ${row.peer}`} />`],
      ["Text", (row) => html`<${Text} text=${row.text} />`],
      ["Tries", (row) => row.attempts],
      ["Error", (row) => html`<${Text} text=${row.error} />`],
      ["", (row) => html`<${Does} name="channels.replay" params=${{ id: row.id }} done=${again}>Replay<//>`],
    ]} /></div>`;
}

function Schedules() {
  const { data, problem, again } = useOperation("schedules.list", { runs: 5 }, { every: 5_000 });
  return html`<div><${Wrong} problem=${problem} />
    <${Table} label="Schedules" rows=${data?.schedules} keyOf=${(row) => row.name} empty=${html`Nothing is scheduled. <code>[plugin.schedules.jobs.NAME]</code> in the settings puts it here.`} columns=${[
      ["Name", (row) => html`<${Text} text=${row.name} />`],
      ["When", (row) => html`<${Text} text=${row.when} />`],
      ["State", (row) => html`<span class=${row.state === "on" ? "good" : ""}>${row.state}</span> <${Text} text=${row.note} />`],
      ["Next", (row) => html`<${Time} at=${row.next} />`],
      ["Last", (row) => html`<${Time} at=${row.last} /> <${Text} text=${row.outcome} />`],
      ["Missed", (row) => row.missed],
      ["", (row) => html`<${Does} name="schedules.run" params=${{ name: row.name }} done=${again}>Run<//>${" "}
        ${row.state === "paused" ? html`<${Does} name="schedules.resume" params=${{ name: row.name }} done=${again}>Resume<//>`
          : html`<${Does} name="schedules.pause" params=${{ name: row.name }} done=${again} why=${row.state === "on" ? "" : "The settings have it off."}>Pause<//>`}`],
    ]} />
    <h4>Last runs</h4>
    <${Table} label="Last runs" rows=${data?.runs} empty="Nothing has run yet." columns=${[
      ["Schedule", (row) => html`<${Text} text=${row.schedule} />`],
      ["Planned", (row) => html`<${Time} at=${row.planned} />`],
      ["By", (row) => html`<${Text} text=${row.by} />`],
      ["State", (row) => html`<${Text} text=${row.count > 1 ? `${row.state}, ${row.count} of them` : row.state} />`],
      ["Why", (row) => html`<${Text} text=${row.note} />`],
      ["Turn", (row) => row.turn && html`<a href=${`#/turns/${encodeURIComponent(row.turn)}`}>waterfall</a>`],
    ]} /></div>`;
}

function Tokens() {
  const gate = useGate();
  const { data, problem, again } = useOperation("token.list", gate.may("operate") ? {} : null);
  if (!gate.may("operate")) return html`<p class="empty">Tokens are for those with the scope operate.</p>`;
  return html`<div><${Wrong} problem=${problem} />
    <${Table} label="Tokens" rows=${data?.tokens} keyOf=${(row) => row.name} empty=${html`No token is known. <code>hookgate token new NAME</code> makes one, and prints its line for the settings.`} columns=${[
      ["Name", (row) => html`<${Text} text=${row.name} />`],
      ["Scopes", (row) => html`<${Text} text=${row.scopes.join(", ")} />`],
      ["State", (row) => (row.revoked ? html`<span class="bad">revoked</span>` : html`<span class="good">valid</span>`)],
      ["", (row) => html`<${Does} name="token.revoke" params=${{ name: row.name }} done=${again} sure="Revoke for good" why=${row.revoked ? "It is revoked." : ""}>Revoke<//>`],
    ]} /></div>`;
}

function Sandbox() {
  const { data, problem } = useOperation("wasm.list");
  return html`<div><${Wrong} problem=${problem} />
    <${Table} label="Sandbox" rows=${data?.plugins} keyOf=${(row) => row.folder} empty=${html`No plugin of the sandbox is there. <code>hookgate wasm install FOLDER</code> brings one.`} columns=${[
      ["Name", (row) => html`<${Text} text=${`${row.name} ${row.version}`} />`],
      ["Brings", (row) => html`<${Text} text=${row.kind === "tool" ? row.tools.join(", ") : row.kind} />`],
      ["May", (row) => html`<${Text} text=${row.grants.join(", ") || "compute, and no more"} />`],
      ["State", (row) => html`<span class=${row.state === "running" ? "good" : "bad"}>${row.state}</span> <${Text} text=${row.why} />`],
      ["Digest", (row) => html`<span title=${row.digest}><${Text} text=${row.digest.slice(0, 12)} /></span>`],
      ["Folder", (row) => html`<${Text} text=${row.folder} />`],
    ]} /></div>`;
}
