// The calls on record judged again: which decisions flip, side by side, and which cannot be said.

import { Button, Command, Download, Field, Table, Text, Time, Wrong, html, shell, useAction, useEffect, useFilter, useGate, useRef, useState } from "../lib/parts.js";
import { Coverage, Effect } from "./rules.js";

const PERIODS = { "1h": "the last hour", "24h": "the last day", "7d": "the last 7 days", "30d": "the last 30 days", all: "all on record" };
const BY = { added: "those in force and above", draft: "the rules above alone", force: "the rules in force" };
const AGAINST = { record: "what was decided", force: "the rules in force" };
const PAGE = 100;
const known = (options, value) => (value in options ? value : "");

/** @param {{texts: Record<string, string>}} given the rules and cases that are being written */
export function Replay({ texts }) {
  const gate = useGate();
  const [filter, change] = useFilter();
  const { turn = "" } = filter;
  const [period, by, chosen] = [known(PERIODS, filter.period) || "7d", known(BY, filter.by) || "added", known(AGAINST, filter.against) || "record"];
  const against = by === "force" ? "record" : chosen;
  // A turn stands in its own time.
  const since = turn ? filter.since ?? "" : period === "all" ? "" : period;
  const [found, show] = useState(null);
  const running = useRef("");
  const here = useRef(null);
  const stop = () => running.current && gate.call("request.cancel", { request: running.current }).catch(() => {});
  useEffect(() => { if (turn) here.current.scrollIntoView(); return () => { stop(); }; }, []);
  const { busy, problem, run } = useAction(async () => {
    show({ decisions: [] });
    const given = { since, turn, ...(by === "force" ? {} : { rules: texts["rules.yaml"], added: by === "added" }) };
    const compared = against === "force";
    const params = { ...given, ...(compared ? { cases: texts["rules.test.yaml"] } : {}) };
    const { id, result } = gate.stream(compared ? "policy.diff" : "policy.replay", params, (type, so) => type === "progress"
      && show((before) => ({ ...so, decisions: [...(before?.decisions ?? []), ...so.decisions] })));
    running.current = id;
    try {
      show(await result);
    } catch (error) {
      if (error.code !== "cancelled") show(null);
      throw error;
    } finally {
      running.current = "";
      gate.forget(id);
    }
  });
  const choice = (label, name, options, value) => html`<${Field} label=${label} value=${options[value]} options=${Object.values(options)}
    onInput=${(word) => change({ [name]: Object.keys(options).find((key) => options[key] === word) ?? "" })} />`;
  const from = since ? ["--since", since] : [];
  const paths = { added: ["--rules", "FOLDER", "--rules", "rules.yaml"], draft: ["--rules", "rules.yaml"], force: [] }[by];
  const command = against === "force" ? ["diff", "FOLDER", "rules.yaml", ...(since ? from : ["--audit"])] : ["replay", ...paths, ...from];
  const stopped = problem?.code === "cancelled";
  return html`<section ref=${here}><h3>Replay calls on record</h3>
    <p class="faint">What was called is judged again; nothing is called.</p>
    <div class="bar">
      ${turn ? html`<p>Calls of the turn <a href=${`#/turns/${encodeURIComponent(turn)}`}><${Text} text=${turn} /></a>.${" "}
          <button type="button" class="small" onClick=${() => change({ turn: "", since: "" })}>All turns</button></p>`
        : choice("Calls of", "period", PERIODS, period)}
      ${choice("Judged by", "by", BY, by)}
      ${by === "force" ? null : choice("Held against", "against", AGAINST, against)}
      <${Button} scope="read" kind="primary" busy=${busy} onClick=${run}>Replay<//>
      ${busy ? html`<button type="button" onClick=${stop}>Stop</button>` : null}</div>
    ${stopped ? null : html`<${Wrong} problem=${problem} />`}
    <div aria-live="polite">${found ? html`<${Found} found=${found} state=${busy ? "Reading…" : stopped ? "Stopped here." : found.whole === false && found.ok ? "It took too long, and ended here." : ""} />` : null}</div>
    <${Command} text=${shell(["hookgate", "policy", ...command])} /></section>`;
}

function Found({ found, state }) {
  const [kind, choose] = useState("");
  const [shown, more] = useState(PAGE);
  if (found.ok === false) return html`<p class="bad">The rules cannot be read, so nothing was judged:</p>
    <ul>${found.problems.map((one) => html`<li><${Text} text=${`${one.file}:${one.line} ${one.found}, expected ${one.expected}`} /></li>`)}</ul>`;
  const flips = found.decisions.filter((one) => one.standing === "flip");
  const listed = flips.filter((one) => !kind || `${one.old} -> ${one.new}` === kind);
  const others = found.decisions.filter((one) => one.standing !== "flip");
  const count = Object.values(found.flips ?? {}).reduce((sum, one) => sum + one, 0);
  return html`<p><strong>${state} ${found.rows ?? 0} ${found.rows === 1 ? "decision" : "decisions"}: ${found.same ?? 0} stay, ${count} flip</strong>
      ${Object.entries(found.flips ?? {}).map(([name, one]) => html`, ${one} <${Text} text=${name} />`)}
      ${found.undecidable ? `, ${found.undecidable} cannot be said` : ""}${found.passed_over ? `, ${found.passed_over} were not up to rules` : ""}
      ${found.at ? html`; up to <${Time} at=${found.at} />` : null}.</p>
    ${count ? html`<div class="bar"><${Field} label="Flips" value=${kind} options=${["", ...Object.keys(found.flips)]} onInput=${choose} />
        <${Download} name="flips" rows=${listed} /></div>` : null}
    <${Table} label="Flips" rows=${listed.slice(0, shown)} keyOf=${(one) => one.row}
      empty=${found.rows ? "No decision is another one." : state ? "" : html`Nothing was called in that time. <a href="#/chat">Say something</a> that needs a tool, or take a longer one.`} columns=${[
        ["At", (one) => html`<${Time} at=${one.at} />`],
        ["Call", (one) => html`<a href=${`#/audit?${new URLSearchParams({ call: one.call, turn: one.turn })}`}><${Text} text=${one.tool} /></a>`],
        ["Before", (one) => html`<${Effect} effect=${one.old} /> <span class="faint"><${Text} text=${one.old_rule} /></span>`],
        ["After", (one) => html`<${Effect} effect=${one.new} /> <span class="faint"><${Text} text=${one.new_rule} /></span>`],
        ["Why", (one) => html`<${Text} text=${one.why.split("\n")[0]} />`],
      ]} />
    ${listed.length > shown ? html`<p><button type="button" onClick=${() => more(shown + PAGE)}>More</button></p>` : null}
    ${flips.length < count ? html`<p class="faint">${flips.length} of ${count} are listed; the command has them all.</p>` : null}
    ${others.length ? html`<details><summary>${(found.undecidable ?? 0) + (found.passed_over ?? 0)} that cannot be judged again, and why</summary>
      <ul>${Object.entries(found.reasons).map(([reason, times]) => html`<li>${times}× <${Text} text=${reason} /></li>`)}</ul>
      <${Download} name="not-replayed" rows=${others} />
      <${Table} label="Not judged again" rows=${others} keyOf=${(one) => one.row} empty="" columns=${[
        ["At", (one) => html`<${Time} at=${one.at} />`],
        ["Call", (one) => html`<a href=${`#/audit?${new URLSearchParams({ call: one.call, turn: one.turn })}`}><${Text} text=${one.tool} /></a>`],
        ["Was", (one) => html`<${Text} text=${one.old} />`],
        ["Why not", (one) => html`<${Text} text=${one.why} />`],
      ]} /></details>` : null}
    ${found.changed ? html`<${Compared} found=${found} />` : null}
    ${found.rules?.length && found.rows ? html`<h4>What each rule did there</h4><${Coverage} rows=${found.rules} label="Rules on record" name="rules-on-record" />` : null}`;
}

/** How two sets of rules differ beside the record. */
function Compared({ found }) {
  const said = [...found.added.map((name) => `${name} is new`), ...found.removed.map((name) => `${name} is gone`),
    ...Object.entries(found.changed).map(([name, keys]) => `${name} has another ${keys.join(", ")}`)];
  const rows = [...found.cases.map((one) => ({ of: "case", ...one })), ...found.table.map((one) => ({ of: "table", ...one }))];
  return html`<h4>What differs</h4><p><${Text} text=${said.join("; ") || "They say the same"} />. ${found.differing_cases} cases and ${found.differing_table} of ${found.lines} lines of the table differ.</p>
    ${rows.length ? html`<${Table} label="What differs" rows=${rows} empty="" columns=${[
      ["Of", (one) => one.of],
      ["Call", (one) => html`<${Text} text=${one.what} />`],
      ["Before", (one) => html`<${Effect} effect=${one.old} /> <span class="faint"><${Text} text=${one.old_rule} /></span>`],
      ["After", (one) => html`<${Effect} effect=${one.new} /> <span class="faint"><${Text} text=${one.new_rule} /></span>`],
    ]} />` : null}`;
}
