// The shell: who is logged in, which view is shown, and the keys.

import { render, useErrorBoundary } from "./vendor/preact.js";
import { Gate, logIn, logOut } from "./lib/gate.js";
import { GateContext, Wrong, html, useAction, useEffect, useOperation, useRef, useState } from "./lib/parts.js";
import { views } from "./views/index.js";

/** The address without its filter. */
const address = () => location.hash.replace(/^#\/?/, "").split("?")[0];

/** A part of the address; one that is malformed is taken as it is. */
function decoded(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

function Page({ gate }) {
  const [, redraw] = useState(0);
  const [at, setAt] = useState(address());
  useEffect(() => {
    const changed = () => redraw((count) => count + 1);
    const moved = () => setAt(address());
    gate.addEventListener("state", changed);
    addEventListener("hashchange", moved);
    gate.connect();
    return () => {
      gate.removeEventListener("state", changed);
      removeEventListener("hashchange", moved);
    };
  }, []);
  if (gate.state === "out") return html`<${Login} gate=${gate} />`;
  if (!gate.hello) return html`<main><p class="faint" aria-busy="true">Connecting…</p></main>`;
  return html`<${GateContext.Provider} value=${gate}><${Frame} gate=${gate} at=${at} /><//>`;
}

function Frame({ gate, at }) {
  const [keys, setKeys] = useState(false);
  const main = useRef(null);
  const [name, ...rest] = at.split("/");
  const view = views.find((one) => one.path === name) ?? null;
  useKeys(setKeys);
  useEffect(() => {
    document.title = `${view ? view.title : "Not found"} – hookgate`;
    main.current?.focus({ preventScroll: true });
  }, [view]);
  return html`
    <a class="skip" href="#main" onClick=${(event) => { event.preventDefault(); main.current.focus(); }}>Skip to the view</a>
    <header>
      <h1><a href="#/">hookgate</a></h1>
      <nav aria-label="Views">${views.map((one) => html`<a href=${`#/${one.path}`}
        aria-current=${one === view ? "page" : null}>${one.title}<${Badge} view=${one} /></a>`)}</nav>
      <p class="who"><span title=${gate.hello.scopes.join(", ")}>${gate.hello.principal}</span>
        <button type="button" class="small" onClick=${() => setKeys(true)} aria-label="Keys">?</button>
        ${gate.hello.principal === "loopback" ? null : html`<button type="button" class="small"
          onClick=${async () => { await logOut(); location.reload(); }}>Log out</button>`}</p>
    </header>
    <${Lost} />
    ${gate.state === "open" ? null : html`<p class="away" role="status">The gateway is away; what is shown may be old. Trying again…</p>`}
    <main id="main" tabindex="-1" ref=${main}>${view
      ? html`<h2>${view.title}</h2><${Whole} key=${at} view=${view} rest=${rest.map(decoded)} />`
      : html`<h2>Not found</h2><p class="empty">There is no view “${at}”. <a href="#/">Home</a></p>`}</main>
    ${keys ? html`<${Keys} close=${() => setKeys(false)} />` : null}`;
}

/** A view, or what it failed with: the others are still there. */
function Whole({ view, rest }) {
  const [error, reset] = useErrorBoundary();
  const [loaded, setLoaded] = useState(/** @type {{View: any, problem: any}} */ ({ View: view.View, problem: null }));
  const load = () => view.load().then(
    // Kept, so that another address of the same view shows it at once.
    (View) => setLoaded({ View: (view.View = View), problem: null }),
    () => setLoaded({ View: null, problem: { message: "This view could not be loaded." } }),
  );
  useEffect(() => void (view.View ?? load()), []);
  const problem = error ?? loaded.problem;
  const again = () => (error ? reset() : load());
  return html`<div>${problem
    ? html`<${Wrong} problem=${problem} /><p><button type="button" onClick=${again}>Try again</button></p>`
    : loaded.View ? html`<${loaded.View} rest=${rest} />` : html`<p class="faint" aria-busy="true">Loading…</p>`}</div>`;
}

/** Said on every view: what is done now may be gone with the process. */
function Lost() {
  const { data } = useOperation("status", {}, { on: ["degraded", "recovered"] });
  return data && !data.durable
    ? html`<p class="away" role="status">Nothing is kept: the store cannot be written. <a href="#/">Home</a> says why.</p>` : null;
}

function Badge({ view }) {
  const { data } = useOperation(view.counts?.name ?? "ping", view.counts ? {} : null, view.counts);
  const count = data && view.counts ? view.counts.of(data) : 0;
  return count ? html` <span class="badge">${count}<span class="hidden"> open</span></span>` : null;
}

/** Where one types, keys are letters. */
const typing = (target) => target.closest?.("input, textarea, select, [contenteditable]");

function useKeys(setKeys) {
  useEffect(() => {
    let went = 0;
    const pressed = (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey) return;
      if (event.key === "Escape") {
        setKeys(false);
        if (typing(event.target)) event.target.blur();
        return;
      }
      if (typing(event.target)) return;
      if (event.key === "?") return setKeys(true);
      if (event.key === "/") {
        const field = /** @type {HTMLElement | null} */ (document.querySelector("[data-search]"));
        if (field) {
          event.preventDefault();
          field.focus();
        }
        return;
      }
      if (event.key === "g") return void (went = Date.now());
      const view = views.find((one) => one.key === event.key);
      if (view && Date.now() - went < 1500) location.hash = `#/${view.path}`;
      went = 0;
    };
    addEventListener("keydown", pressed);
    return () => removeEventListener("keydown", pressed);
  }, []);
}

function Keys({ close }) {
  const dialog = useRef(null);
  useEffect(() => dialog.current.showModal(), []);
  return html`<dialog ref=${dialog} onClose=${close} aria-label="Keys"><h2>Keys</h2><dl>
    <dt><kbd>/</kbd></dt><dd>search</dd><dt><kbd>Esc</kbd></dt><dd>close</dd><dt><kbd>?</kbd></dt><dd>this list</dd>
    ${views.map((one) => html`<dt><kbd>g</kbd> <kbd>${one.key}</kbd></dt><dd>${one.title}</dd>`)}</dl>
    <button type="button" onClick=${() => dialog.current.close()}>Close</button></dialog>`;
}

function Login({ gate }) {
  const [token, setToken] = useState("");
  const { busy, problem, run } = useAction(async () => {
    await logIn(token);
    setToken("");
    await gate.connect();
  });
  return html`<main class="login"><h1>hookgate</h1>
    <form onSubmit=${(event) => { event.preventDefault(); run(); }}>
      <label class="field"><span>Token</span><input type="password" required autocomplete="current-password" value=${token}
        onInput=${(event) => setToken(event.target.value)} /></label>
      <button type="submit" disabled=${busy}>Log in</button>
      <${Wrong} problem=${problem} />
      <p class="faint"><code>hookgate token new NAME</code> makes a token.</p>
    </form></main>`;
}

render(html`<${Page} gate=${new Gate()} />`, document.body);
