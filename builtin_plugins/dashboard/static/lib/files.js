// Rows as files.

import { html } from "../vendor/preact.js";

/** The rows that are shown, as a file.
 * @param {{rows: object[] | null | undefined, name: string, lines?: boolean}} given `lines`: JSON, a row a line */
export function Download({ rows, name, lines = false }) {
  const save = (kind, text, ending) => {
    const link = document.createElement("a");
    link.href = `data:${kind};charset=utf-8,${encodeURIComponent(text)}`;
    link.download = `${name}.${ending}`;
    link.click();
  };
  if (!rows?.length) return null;
  return html`<span class="download">
    <button type="button" class="small" onClick=${() => save("text/csv", csv(rows), "csv")}>CSV</button>
    ${lines
      ? html`<button type="button" class="small" onClick=${() => save("application/x-ndjson", rows.map((row) => `${JSON.stringify(row)}\n`).join(""), "jsonl")}>JSON lines</button>`
      : html`<button type="button" class="small" onClick=${() => save("application/json", JSON.stringify(rows, null, 1), "json")}>JSON</button>`}
  </span>`;
}

/** A table as text. A cell that a program would take for a formula begins with an apostrophe.
 * @param {object[]} rows */
export function csv(rows) {
  const names = [...new Set(rows.flatMap((row) => Object.keys(row)))];
  const cell = (value) => {
    const text = typeof value === "object" && value !== null ? JSON.stringify(value) : String(value ?? "");
    const safe = /^\s*[=+\-@＝＋－＠]|^[\t\r\n]/.test(text) ? `'${text}` : text;
    return /[",\n\r]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
  };
  return [names.map(cell), ...rows.map((row) => names.map((name) => cell(row[name])))].map((line) => line.join(",")).join("\r\n");
}
