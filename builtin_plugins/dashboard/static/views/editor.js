// Rules and their cases, checked while they are typed. Nothing is written but what one downloads.

import { Button, Command, Download, Table, Text, Wrong, html, useAction, useEffect, useGate, useRef, useState } from "../lib/parts.js";
import { Coverage, Effect } from "./rules.js";

const RULES = `rules:
  - name: no-send-after-web
    match:
      flags: {sends_externally: [true, unknown]}
      tainted: true
    effect: deny
    reason: this conversation has read text that somebody else wrote; start a new one for it
`;
const CASES = `cases:
  - name: a mail after a page
    call: {tool: send_mail, flags: {sends_externally: true}}
    turn: {taint: ["tool:http_get"]}
    expect: deny
`;
const PAUSE = 500;
/** What was typed stays while the page is open, in whatever view one is. */
export const kept = { "rules.yaml": RULES, "rules.test.yaml": CASES };

/** @param {{texts: Record<string, string>, write: (changes: Record<string, string>) => void}} given */
export function Editor({ texts, write }) {
  const gate = useGate();
  const [checked, setChecked] = useState(/** @type {{found: any, problem: any}} */ ({ found: null, problem: null }));
  const [tried, setTried] = useState(null);
  const areas = useRef({});
  const rules = texts["rules.yaml"];
  useEffect(() => {
    let current = true;
    const timer = setTimeout(() => gate.call("policy.check", { rules }).then(
      (found) => current && setChecked({ found, problem: null }),
      (problem) => current && setChecked({ found: null, problem }),
    ), PAUSE);
    return () => { current = false; clearTimeout(timer); };
  }, [rules, gate.generation]);
  useEffect(() => setTried(null), [texts]);
  const { busy, problem, run } = useAction(async () => {
    setTried(null);
    setTried(await gate.call("policy.test", { rules, cases: texts["rules.test.yaml"], added: true }));
  });
  const go = ({ file, line }) => select(areas.current[file], line);
  const problems = tried?.problems ?? checked.found?.problems ?? [];
  return html`<section><h3>Write rules</h3>
    <p class="faint">Nothing here is in force: download the files, put them where <code>rules</code> of [plugin.policy] points, and reload.
      Cases are judged as they would be then: the rules in force count beside these, but for those of the same names.</p>
    <div class="editors">${Object.keys(texts).map((file) => html`<label class="field" key=${file}><span>${file}</span>
      <textarea rows="14" spellcheck=${false} autocomplete="off" maxlength="65536" value=${texts[file]} ref=${(area) => { areas.current[file] = area; }}
        onInput=${(event) => write({ [file]: event.target.value })}></textarea></label>`)}</div>
    <p class="buttons"><${Button} scope="read" kind="primary" busy=${busy} onClick=${run}>${busy ? "Running…" : "Run the cases"}<//>
      ${Object.keys(texts).map((file) => html`<button type="button" onClick=${() => download(file, texts[file])}>Download ${file}</button>`)}</p>
    <${Wrong} problem=${problem ?? checked.problem} />
    <div aria-live="polite">${checked.found && !problems.length
      ? html`<p class="good">${checked.found.rules.length === 1 ? "1 rule" : `${checked.found.rules.length} rules`}, nothing wrong.</p>` : null}
    ${problems.length ? html`<${Table} label="Problems" rows=${problems} empty="" columns=${[
      ["Line", (one) => html`<button type="button" class="link" onClick=${() => go(one)}>${one.file}${one.line ? `:${one.line}` : ""}</button>`],
      ["", (one) => html`<span class=${one.severity === "error" ? "bad" : "faint"}>${one.severity}</span>`],
      ["At", (one) => html`<code><${Text} text=${one.key} /></code>`],
      ["Found", (one) => html`<${Text} text=${one.found} />`],
      ["Expected", (one) => html`<${Text} text=${one.expected} />`],
    ]} />` : null}
    ${tried ? html`<${Cases} tried=${tried} go=${go} /><${Coverage} rows=${tried.coverage} label="Rules that the cases exercise" name="coverage" />` : null}</div>
    <${Command} text="hookgate policy test FOLDER rules.yaml" /></section>`;
}

function Cases({ tried: { cases, passed, failed, left }, go }) {
  return html`<p class=${failed || left ? "bad" : "good"}>${passed} passed, ${failed} failed${left ? `, ${left} not run` : ""} <${Download} name="cases" rows=${cases} /></p>
    <${Table} label="Cases" rows=${cases} empty="No case was run." columns=${[
      ["Case", (one) => html`<button type="button" class="link" onClick=${() => go({ file: "rules.test.yaml", line: one.line })}><${Text} text=${one.name} /></button>`],
      ["", (one) => (one.passed ? html`<span class="good">passed</span>` : html`<strong class="bad">failed</strong>`)],
      ["Verdict", (one) => html`<${Effect} effect=${one.effect} /> by <${Text} text=${one.rule || "nothing"} />`],
      ["Why", (one) => html`<${Text} text=${one.passed ? one.why : one.wrong.join("; ")} />`],
    ]} />`;
}

/** Show a line of a text, marked. @param {HTMLTextAreaElement} area @param {number} line from 1 */
function select(area, line) {
  const lines = area.value.split("\n");
  const from = lines.slice(0, line - 1).join("\n").length + (line > 1 ? 1 : 0);
  area.focus();
  area.setSelectionRange(from, from + (lines[line - 1] ?? "").length);
}

function download(name, text) {
  const link = document.createElement("a");
  link.href = `data:text/yaml;charset=utf-8,${encodeURIComponent(text)}`;
  link.download = name;
  link.click();
}
