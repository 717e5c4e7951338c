// What all views are made of.

import { Component, html, useCallback, useContext, useEffect, useLayoutEffect, useMemo, useRef, useState, createContext } from "../vendor/preact.js";
import { UNSEEN, ago, exactly, numbered, plain } from "./words.js";

export { Download, csv } from "./files.js";
export { commandOf, money, plain, shell, short } from "./words.js";
export { html, useCallback, useContext, useEffect, useLayoutEffect, useMemo, useRef, useState };

/** The gateway, for every view. */
export const GateContext = createContext(/** @type {import("./gate.js").Gate} */ (/** @type {unknown} */ (null)));

/** @returns {import("./gate.js").Gate} */
export const useGate = () => useContext(GateContext);

/** Ask an operation, and again when `params` change, the connection is new or an event says so.
 * @param {string} name @param {object | null} params null asks nothing
 * @param {{on?: string[], every?: number, still?: boolean, rest?: number}} more events and milliseconds
 *   after which to ask again; `still` is not to ask while the pointer is on rows, `rest` how long events
 *   wait for each other
 * @returns {{data: any, problem: import("./gate.js").Problem | null, of: string, again: () => void}}
 *   `of` is what `data` answers: `params` as JSON */
export function useOperation(name, params = {}, { on = [], every = 0, still = true, rest = 1_000 } = {}) {
  const gate = useGate();
  const [answer, setAnswer] = useState({ data: null, problem: null, of: "" });
  const [asked, ask] = useState(0);
  const pending = useRef(/** @type {Promise<any>} */ (Promise.resolve()));
  const again = useCallback(() => ask((count) => count + 1), []);
  const key = JSON.stringify(params);
  useEffect(() => {
    // Several events of one moment are one question.
    let waits = 0, last = 0, missed = false;
    const soon = () => {
      if (document.hidden) missed = true;
      else waits ||= setTimeout(() => { waits = 0; last = Date.now(); again(); }, Math.max(150, last + rest - Date.now()));
    };
    const shown = () => { if (missed && !document.hidden) { missed = false; again(); } };
    const deaf = gate.hear(on, soon);
    document.addEventListener("visibilitychange", shown);
    // Nothing is asked for while nobody looks, and no row moves under the pointer.
    const timer = every ? setInterval(() => document.hidden || (still && document.querySelector("tbody:hover")) || again(), every) : 0;
    return () => {
      deaf();
      document.removeEventListener("visibilitychange", shown);
      clearTimeout(waits);
      clearInterval(timer);
    };
  }, [on.join(), every]);
  useEffect(() => {
    if (params === null) return undefined;
    let current = true;
    const question = () => current && gate.call(name, params).then(
      (data) => current && setAnswer({ data, problem: null, of: key }),
      // What was shown stays while the gateway is away.
      (problem) => current && setAnswer((before) => ({ ...before, data: problem.code === "away" ? before.data : null, problem })),
    );
    // One at a time: of what is typed meanwhile the last is asked, and slow answers pile up nowhere. What
    // it listens for is followed first, so that nothing comes between.
    pending.current = pending.current.then(question);
    return () => { current = false; };
  }, [name, key, asked, gate.generation]);
  return { ...answer, again };
}

/** Ask for rows page by page. What came meanwhile is counted, and shown when asked for: nothing
 * moves under the pointer. Rows that are shown stay as they are now.
 * @param {string} name @param {object} params
 * @param {{list: string, by: string, keyOf: (row: any) => string, on?: string[], every?: number, rest?: number, stay?: boolean}} how
 *   the member with the rows, and the parameter that takes `next`; with `stay` rows are shown until those of
 *   another filter have come */
export function useRows(name, params, { list, by, keyOf, on, every, rest, stay = false }) {
  const gate = useGate();
  const newest = useOperation(name, params, { on, every, rest, still: false });
  const shown = useRef({ of: null, rows: [], next: "" });
  const [, draw] = useState(0);
  const key = JSON.stringify(params);
  const page = newest.of === key ? newest.data : null;
  const show = (changes) => { shown.current = { ...shown.current, ...changes }; };
  const newestOnes = () => show({ of: key, rows: page[list], next: page.next });
  if (page && (shown.current.of !== key || !shown.current.rows.length)) newestOnes();
  const more = useAction(async () => {
    const older = await gate.call(name, { ...params, [by]: shown.current.next });
    if (shown.current.of === key) show({ rows: [...shown.current.rows, ...older[list]], next: older.next });
  });
  const now = new Map((page?.[list] ?? []).map((row) => [keyOf(row), row]));
  const { of, rows, next } = shown.current;
  const known = new Set(rows.map(keyOf));
  return {
    rows: of === key ? rows.map((row) => now.get(keyOf(row)) ?? row) 
      : newest.problem ? [] : stay && of !== null ? rows : null,
    problem: newest.problem ?? more.problem,
    fresh: of === key ? [...now.keys()].filter((one) => !known.has(one)).length : 0,
    all: () => { newestOnes(); draw((count) => count + 1); },
    more: of === key && next ? more : null,
    data: page,
    again: newest.again,
  };
}

/** Do something by a button: says while it runs, what came of it and what went wrong.
 * @param {(...given: any[]) => Promise<any>} work */
export function useAction(work) {
  const [state, setState] = useState(/** @type {{busy: boolean, problem: any, result: any}} */ ({ busy: false, problem: null, result: null }));
  const run = async (...given) => {
    setState({ busy: true, problem: null, result: null });
    try {
      const result = await work(...given);
      setState({ busy: false, problem: null, result });
      return result;
    } catch (problem) {
      setState({ busy: false, problem, result: null });
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
  // At once, not after the paint: who follows a link in between would see the filter of before.
  useLayoutEffect(() => {
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

/** Text of others, every character of it to be seen. @param {{text: unknown}} given */
export function Text({ text }) {
  const whole = String(text ?? "");
  const parts = [];
  let last = 0;
  for (const { 0: found, index } of whole.matchAll(UNSEEN)) {
    parts.push(whole.slice(last, index));
    parts.push(html`<span class="unseen" title="a character that shows nothing">${numbered(found)}</span>`);
    last = index + found.length;
  }
  return parts.length ? [...parts, whole.slice(last)] : whole;
}

/** A time, as long ago it is; the exact one on focus or under the pointer. @param {{at: string}} given */
export function Time({ at }) {
  const date = new Date(at);
  const known = Boolean(at) && !Number.isNaN(date.valueOf());
  // What is told is drawn anew when other words are due, and no sooner: there are hundreds of them.
  const [, tell] = useState("");
  useEffect(() => {
    const timer = known ? setInterval(() => tell(ago(date)), 10_000) : 0;
    return () => clearInterval(timer);
  }, [at]);
  if (!at) return html`<span class="faint">–</span>`;
  if (!known) return html`<${Text} text=${at} />`;
  return html`<time datetime=${date.toISOString()} title=${exactly(date)} tabindex="0">${ago(date)}</time>`;
}

/** What went wrong, and what to do. @param {{problem: import("./gate.js").Problem | null}} given */
export function Wrong({ problem }) {
  if (!problem) return null;
  return html`<p class="wrong" role="alert"><${Text} text=${problem.message} />${
    problem.action ? html` <span class="faint"><${Text} text=${problem.action} /></span>` : null}</p>`;
}

/** Rows, a view of each, or the sentence that says how to fill it. A column is its name, what it shows
 * of a row, and a class, such as `number`.
 * @param {{rows: any[] | null | undefined, columns: [string, (row: any) => any, string?][], empty: any,
 *   label: string, keyOf?: (row: any) => string, current?: string}} given */
export function Table(given) {
  // One root whatever is in it: Preact puts what follows a root that changes before everything else.
  return html`<div>${table(given)}</div>`;
}

/** @param {any} given */
function table({ rows, columns, empty, label, keyOf, current }) {
  if (!rows) return html`<p class="faint" aria-busy="true">Asking…</p>`;
  if (!rows.length) return html`<p class="empty">${empty}</p>`;
  return html`<div class="scroll" role="region" aria-label=${label} tabindex="0"><table>
    <caption class="hidden">${label}</caption>
    <thead><tr>${columns.map(([name, , kind]) => html`<th scope="col" class=${kind}>${name || html`<span class="hidden">Do</span>`}</th>`)}</tr></thead>
    <tbody>${rows.map((row, number) => {
      const key = keyOf ? keyOf(row) : String(number);
      return html`<${Row} key=${key} row=${row} columns=${columns} current=${current === key} />`;
    })}</tbody></table></div>`;
}

/** A row; drawn anew when it says something else. Columns that are always the same ones spare the rest. */
class Row extends Component {
  shouldComponentUpdate({ row, columns, current }) {
    const before = this.props;
    return columns !== before.columns || current !== before.current
      || (row !== before.row && JSON.stringify(row) !== JSON.stringify(before.row));
  }

  render({ row, columns, current }) {
    return html`<tr aria-current=${current ? "true" : null}>
      ${columns.map(([, show, kind]) => html`<td class=${kind}>${show(row)}</td>`)}</tr>`;
  }
}

/** What stands above rows: how many came since. @param {{rows: {fresh: number, all: () => void}}} given */
export function Fresh({ rows }) {
  return html`<span role="status">${rows.fresh
    ? html`<button type="button" class="small primary" onClick=${rows.all}>${rows.fresh} new</button>` : null}</span>`;
}

/** What stands below rows: those behind them. @param {{rows: {more: any}, word?: string}} given */
export function Older({ rows, word = "Older" }) {
  return rows.more && html`<p><button type="button" disabled=${rows.more.busy} onClick=${rows.more.run}>${word}</button></p>`;
}

/** A button that says which scope it lacks instead of failing.
 * @param {{scope: string | null, onClick?: () => void, type?: string, busy?: boolean, kind?: string,
 *   why?: string, children?: any}} given */
export function Button({ scope, onClick, type = "button", busy = false, kind = "", why = "", children }) {
  const gate = useGate();
  const lacks = gate.state !== "open" ? "The gateway is away." : gate.may(scope) ? why : `Needs the scope ${scope}.`;
  return html`<button type=${type} class=${kind} disabled=${Boolean(lacks) || busy} title=${lacks || null}
    onClick=${onClick}>${children}</button>`;
}

/** A share of 1 as a bar, with what it says. @param {{share: number, label: string}} given */
export function Meter({ share, label }) {
  const percent = Math.round(100 * Math.min(Math.max(share, 0), 1));
  return html`<span class=${`meter${share >= 1 ? " full" : ""}`} role="img" aria-label=${label} title=${label}>
    <span style=${{ width: `${percent}%` }}></span></span>`;
}

/** The command that shows the same, to copy as it is shown: a control character would press keys
 * in a terminal. @param {{text: string}} given */
export function Command({ text }) {
  const [copied, setCopied] = useState(false);
  const copy = async () => {
    await navigator.clipboard?.writeText(plain(text));
    setCopied(true);
    setTimeout(() => setCopied(false), 1500);
  };
  return html`<p class="command"><code><${Text} text=${text} /></code>
    <button type="button" class="small" onClick=${copy}>${copied ? "copied" : "copy"}</button></p>`;
}

/** Labelled field. @param {{label: string, value: string, onInput: (value: string) => void, type?: string,
 *   search?: boolean, options?: string[], empty?: string}} given  what no option is called */
export function Field({ label, value, onInput, type = "text", search = false, options, empty = "any" }) {
  const input = options
    ? html`<select value=${value} onChange=${(event) => onInput(event.target.value)}>
        ${options.map((option) => html`<option value=${option}>${option || empty}</option>`)}</select>`
    : html`<input type=${type} value=${value} data-search=${search || null} autocomplete="off"
        onInput=${(event) => onInput(event.target.value)} />`;
  return html`<label class="field"><span>${label}</span>${input}</label>`;
}
