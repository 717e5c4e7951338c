// What all views are made of.

import { html, useCallback, useContext, useEffect, useMemo, useRef, useState, createContext } from "../vendor/preact.js";

export { html, useCallback, useContext, useEffect, useMemo, useRef, useState };

/** The gateway, for every view. */
export const GateContext = createContext(/** @type {import("./gate.js").Gate} */ (null));

/** @returns {import("./gate.js").Gate} */
export const useGate = () => useContext(GateContext);

/** Ask an operation, and again when `params` change, the connection is new or an event says so.
 * @param {string} name @param {object | null} params null asks nothing
 * @param {{on?: string[], every?: number}} more events and milliseconds after which to ask again
 * @returns {{data: any, problem: import("./gate.js").Problem | null, again: () => void}} */
export function useOperation(name, params = {}, { on = [], every = 0 } = {}) {
  const gate = useGate();
  const [answer, setAnswer] = useState({ data: null, problem: null });
  const [asked, ask] = useState(0);
  const again = useCallback(() => ask((count) => count + 1), []);
  const key = JSON.stringify(params);
  useEffect(() => {
    if (params === null) return undefined;
    let current = true;
    gate.call(name, params).then(
      (data) => current && setAnswer({ data, problem: null }),
      // What was shown stays while the gateway is away.
      (problem) => current && setAnswer((before) => ({ data: problem.code === "away" ? before.data : null, problem })),
    );
    return () => { current = false; };
  }, [name, key, asked, gate.generation]);
  useEffect(() => {
    // Several events of one moment are one question.
    let waits = 0;
    const soon = () => { waits ||= setTimeout(() => { waits = 0; again(); }, 150); };
    for (const type of on) gate.addEventListener(type, soon);
    const timer = every ? setInterval(() => document.hidden || again(), every) : 0;
    return () => {
      for (const type of on) gate.removeEventListener(type, soon);
      clearTimeout(waits);
      clearInterval(timer);
    };
  }, [on.join(), every]);
  return { ...answer, again };
}

/** Do something by a button: says while it runs, and what went wrong.
 * @param {(...given: any[]) => Promise<any>} work */
export function useAction(work) {
  const [state, setState] = useState({ busy: false, problem: null });
  const run = async (...given) => {
    setState({ busy: true, problem: null });
    try {
      const result = await work(...given);
      setState({ busy: false, problem: null });
      return result;
    } catch (problem) {
      setState({ busy: false, problem });
      return undefined;
    }
  };
  return { ...state, run };
}

/** The filter of a view, in the URL: a link shows the same.
 * @returns {[Record<string, string>, (changes: Record<string, string>) => void]} */
export function useFilter() {
  const read = () => Object.fromEntries(new URLSearchParams(location.hash.split("?")[1] ?? ""));
  const [filter, setFilter] = useState(read);
  useEffect(() => {
    const heard = () => setFilter(read());
    addEventListener("hashchange", heard);
    return () => removeEventListener("hashchange", heard);
  }, []);
  const change = (changes) => {
    const kept = Object.entries({ ...read(), ...changes }).filter(([, value]) => value);
    const query = new URLSearchParams(kept).toString();
    history.replaceState(null, "", `${location.hash.split("?")[0]}${query ? `?${query}` : ""}`);
    setFilter(Object.fromEntries(kept));
  };
  return [filter, change];
}

// Characters that show nothing, turn the line, or are taken for others: told by their number.
const UNSEEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb]|[\u{e0000}-\u{e0fff}]/gu;

/** Text of others, every character of it to be seen. @param {{text: unknown}} given */
export function Text({ text }) {
  const whole = String(text ?? "");
  const parts = [];
  let last = 0;
  for (const { 0: found, index } of whole.matchAll(UNSEEN)) {
    parts.push(whole.slice(last, index));
    const number = found.codePointAt(0).toString(16).toUpperCase().padStart(4, "0");
    parts.push(html`<span class="unseen" title="a character that shows nothing">U+${number}</span>`);
    last = index + found.length;
  }
  return parts.length ? [...parts, whole.slice(last)] : whole;
}

const STEPS = [[60, "s", 1], [3600, "min", 60], [86400, "h", 3600], [Infinity, "d", 86400]];

/** A time, as long ago it is; the exact one on focus or under the pointer. @param {{at: string}} given */
export function Time({ at }) {
  const [, tick] = useState(0);
  useEffect(() => {
    const timer = setInterval(() => tick((count) => count + 1), 10_000);
    return () => clearInterval(timer);
  }, []);
  if (!at) return html`<span class="faint">–</span>`;
  const date = new Date(at);
  if (Number.isNaN(date.valueOf())) return html`<${Text} text=${at} />`;
  const seconds = Math.round((Date.now() - date.valueOf()) / 1000);
  const [, unit, size] = STEPS.find(([limit]) => Math.abs(seconds) < limit);
  const count = Math.round(Math.abs(seconds) / size);
  const words = seconds < 0 ? `in ${count} ${unit}` : `${count} ${unit} ago`;
  return html`<time datetime=${date.toISOString()} title=${date.toISOString()} tabindex="0">${words}</time>`;
}

/** What went wrong, and what to do. @param {{problem: import("./gate.js").Problem | null}} given */
export function Wrong({ problem }) {
  if (!problem) return null;
  return html`<p class="wrong" role="alert"><${Text} text=${problem.message} />${
    problem.action ? html` <span class="faint"><${Text} text=${problem.action} /></span>` : null}</p>`;
}

/** Rows, a view of each, or the sentence that says how to fill it.
 * @param {{rows: any[] | null | undefined, columns: [string, (row: any) => any][], empty: any,
 *   label: string, keyOf?: (row: any) => string, current?: string}} given */
export function Table({ rows, columns, empty, label, keyOf, current }) {
  if (!rows) return html`<p class="faint" aria-busy="true">Asking…</p>`;
  if (!rows.length) return html`<p class="empty">${empty}</p>`;
  return html`<div class="scroll" role="region" aria-label=${label} tabindex="0"><table>
    <caption class="hidden">${label}</caption>
    <thead><tr>${columns.map(([name]) => html`<th scope="col">${name}</th>`)}</tr></thead>
    <tbody>${rows.map((row, number) => {
      const key = keyOf ? keyOf(row) : String(number);
      return html`<tr key=${key} aria-current=${current === key ? "true" : null}>
        ${columns.map(([, show]) => html`<td>${show(row)}</td>`)}</tr>`;
    })}</tbody></table></div>`;
}

/** A button that says which scope it lacks instead of failing.
 * @param {{scope: string | null, onClick: () => void, busy?: boolean, kind?: string, why?: string,
 *   children?: any}} given */
export function Button({ scope, onClick, busy = false, kind = "", why = "", children }) {
  const gate = useGate();
  const lacks = gate.state !== "open" ? "The gateway is away." : gate.may(scope) ? why : `Needs the scope ${scope}.`;
  return html`<button type="button" class=${kind} disabled=${Boolean(lacks) || busy} title=${lacks || null}
    onClick=${onClick}>${children}</button>`;
}

/** The command that shows the same, to copy. @param {{text: string}} given */
export function Command({ text }) {
  const [copied, setCopied] = useState(false);
  const copy = async () => {
    await navigator.clipboard?.writeText(text);
    setCopied(true);
    setTimeout(() => setCopied(false), 1500);
  };
  return html`<p class="command"><code>${text}</code>
    <button type="button" class="small" onClick=${copy}>${copied ? "copied" : "copy"}</button></p>`;
}

/** The rows that are shown, as a file. @param {{rows: object[] | null | undefined, name: string}} given */
export function Download({ rows, name }) {
  const save = (kind, text) => {
    const link = document.createElement("a");
    link.href = `data:${kind};charset=utf-8,${encodeURIComponent(text)}`;
    link.download = `${name}.${kind === "text/csv" ? "csv" : "json"}`;
    link.click();
  };
  if (!rows?.length) return null;
  return html`<span class="download">
    <button type="button" class="small" onClick=${() => save("text/csv", csv(rows))}>CSV</button>
    <button type="button" class="small" onClick=${() => save("application/json", JSON.stringify(rows, null, 1))}>JSON</button>
  </span>`;
}

/** A table as text. A cell that a program would take for a formula begins with an apostrophe.
 * @param {object[]} rows */
export function csv(rows) {
  const names = [...new Set(rows.flatMap((row) => Object.keys(row)))];
  const cell = (value) => {
    const text = typeof value === "object" && value !== null ? JSON.stringify(value) : String(value ?? "");
    const safe = /^[=+\-@\t\r]/.test(text) ? `'${text}` : text;
    return /[",\n\r]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
  };
  return [names.map(cell), ...rows.map((row) => names.map((name) => cell(row[name])))].map((line) => line.join(",")).join("\r\n");
}

/** Labelled field. @param {{label: string, value: string, onInput: (value: string) => void, type?: string,
 *   search?: boolean, options?: string[]}} given */
export function Field({ label, value, onInput, type = "text", search = false, options }) {
  const input = options
    ? html`<select value=${value} onChange=${(event) => onInput(event.target.value)}>
        ${options.map((option) => html`<option value=${option}>${option || "any"}</option>`)}</select>`
    : html`<input type=${type} value=${value} data-search=${search || null} autocomplete="off"
        onInput=${(event) => onInput(event.target.value)} />`;
  return html`<label class="field"><span>${label}</span>${input}</label>`;
}
