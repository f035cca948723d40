// What both dashboards share: text that cannot act, units, requests, live events, tables, search.

export const $ = (id) => document.getElementById(id);

/**
 * An element. Children that are strings become text, never markup: names are chosen by others.
 * Attributes that begin with "on" are listeners; those that are null or false are left out.
 */
export function el(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.filter((child) => child !== undefined && child !== null));
  return node;
}

/** Sets the text of `node`, and leaves it alone if it is that already: a reader's selection stays. */
export function set(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

/** What zero-width joiners have on both sides in emoji, and in Arabic and Indic words. */
const JOINED = "[\\u0600-\\u109f\\u1780-\\u18af\\u2190-\\u2bff\\ufe0f\\u{1f000}-\\u{1faff}]";
const MISLEADING = new RegExp(
  `((?<=${JOINED})[\\u200c\\u200d](?=${JOINED}))|[\\p{Cc}\\p{Cf}\\p{Cs}\\p{Co}\\p{Cn}\\p{Zl}\\p{Zp}]|(?![ \\u3000])\\p{Zs}`,
  "gu",
);

/** `text` with what is invisible, or turns the reading direction, shown escaped, as the program prints it. */
export function visible(text) {
  return String(text).replace(MISLEADING, (c, joins) => joins ?? `\\u{${c.codePointAt(0).toString(16)}}`);
}

/** A name, kept apart from the direction of the text around it. */
export const named = (name) => el("bdi", { class: "name" }, visible(name));

// Units ------------------------------------------------------------------------------------------------------------

const UNITS = ["B", "KiB", "MiB", "GiB", "TiB"];

export function bytes(count) {
  if (!Number.isFinite(count)) return "";
  let [value, unit] = [count, 0];
  while (value >= 1024 && unit < UNITS.length - 1) [value, unit] = [value / 1024, unit + 1];
  return `${unit === 0 ? value : value.toFixed(value < 100 ? 1 : 0)} ${UNITS[unit]}`;
}

const GROUPED = new Intl.NumberFormat("en", { useGrouping: true, maximumFractionDigits: 1 });
export const count = (value) => (Number.isFinite(value) ? GROUPED.format(value).replaceAll(",", "\u202f") : "");

export const plural = (value, one, many = `${one}s`) => `${count(value)} ${value === 1 ? one : many}`;

/** A number of seconds, in its two largest units. */
export function span(seconds) {
  const s = Math.max(0, Math.round(seconds));
  const two = (large, unit, small, smallUnit) => `${large} ${unit}${small ? ` ${small} ${smallUnit}` : ""}`;
  if (s < 60) return `${s} s`;
  if (s < 3600) return two(Math.floor(s / 60), "min", s % 60, "s");
  if (s < 86400) return two(Math.floor(s / 3600), "h", Math.floor((s % 3600) / 60), "min");
  return two(Math.floor(s / 86400), "d", Math.floor((s % 86400) / 3600), "h");
}

export const clock = (ms) => new Date(ms).toLocaleTimeString("en-GB");

/** The node's clock minus ours, in ms, as its last answer said; below two seconds it cannot be told from delay. */
let skew = 0;
export const now = () => Date.now() + skew;

// Requests ---------------------------------------------------------------------------------------------------------

/** A refusal of the node: what it said, and its status. */
export class Refused extends Error {
  constructor(status, problem) {
    super([problem.title, problem.detail].filter(Boolean).join(": ") || `the node answered ${status}`);
    this.status = status;
  }
}

/** The node could not be reached. */
class Unanswered extends Error {}

/** Calls `forget` once the node answers again, if `error` says that it did not. */
export function untilItAnswers(error, forget) {
  if (error instanceof Unanswered) document.addEventListener("answers", forget, { once: true });
}

async function refusal(response) {
  const text = await response.text().catch(() => "");
  try {
    return new Refused(response.status, JSON.parse(text));
  } catch {
    return new Refused(response.status, { detail: text.slice(0, 300) });
  }
}

/**
 * Asks the node; gives its JSON, or null where it sends none.
 * Throws `Refused`, or `Unanswered` if the node cannot be reached.
 */
export async function ask(path, options = {}) {
  let response;
  try {
    response = await fetch(path, { cache: "no-store", redirect: "error", ...options });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Unanswered("the node does not answer: is it still running?");
  }
  const date = Date.parse(response.headers.get("date"));
  if (date) skew = Math.abs(date - Date.now()) < 2000 ? 0 : date - Date.now();
  if (!response.ok) throw await refusal(response);
  const text = await response.text();
  return text ? JSON.parse(text) : null;
}

/** `path?key=value..`; lists give several, empty values none. */
export function query(path, values) {
  const params = new URLSearchParams();
  for (const [key, value] of Object.entries(values)) {
    for (const one of [value].flat()) if (one !== undefined && one !== null && one !== "") params.append(key, one);
  }
  const text = params.toString();
  return text ? `${path}?${text}` : path;
}

// Live -------------------------------------------------------------------------------------------------------------

/** Time between two looks at a node whose events cannot be had, in ms. */
const POLL_MS = 2000;

/**
 * Follows the events called `names`: `onEvent(name, data)` for each. `poll` is called whenever a stream begins, as
 * something may have happened before, and every two seconds while there is none.
 */
export function live(path, names, onEvent, poll) {
  const state = $("live");
  const show = (kind, text) => {
    state.dataset.state = kind;
    document.body.dataset.node = kind; // what is shown of one that is gone is old, and looks so
    set(state, text);
    if (kind !== "away") document.dispatchEvent(new Event("answers"));
  };
  let [timer, retry] = [null, null];
  const look = () => poll().then(() => show("polling", "polling"), () => show("away", "no answer"));
  const open = () => {
    const source = new EventSource(path);
    source.onopen = () => {
      clearInterval(timer);
      timer = null;
      show("live", "live");
      poll().catch(() => {});
    };
    source.onerror = () => {
      if (timer === null) {
        timer = setInterval(look, POLL_MS);
        look();
      }
      if (source.readyState === EventSource.CLOSED) { // refused: the browser does not try again by itself
        clearTimeout(retry);
        retry = setTimeout(open, 5 * POLL_MS);
      }
    };
    for (const name of names) {
      source.addEventListener(name, (event) => {
        if (event.data) onEvent(name, JSON.parse(event.data));
      });
    }
    addEventListener("pagehide", () => source.close(), { once: true });
  };
  addEventListener("pageshow", (event) => { if (event.persisted) open(); });
  open();
}

// Tables -----------------------------------------------------------------------------------------------------------

/**
 * Makes `body` show `items` in their order. `make(item)` builds a row; `row.update(item)` fills it in. Rows that stay
 * are not replaced, so that the focus and a selection survive what changes around them.
 */
export function fill(body, items, keyOf, make) {
  const before = new Map([...body.children].map((row) => [row.key, row]));
  const rows = items.map((item) => {
    const key = keyOf(item);
    const row = before.get(key) ?? make(item);
    before.delete(key);
    row.key = key;
    row.update?.(item);
    return row;
  });
  for (const gone of before.values()) gone.remove();
  rows.forEach((row, place) => {
    if (body.children[place] !== row) body.insertBefore(row, body.children[place] ?? null);
  });
}

/** Shows `figures`, pairs of a title and a text, in the list `tiles`. */
export function showTiles(figures, id = "tiles") {
  fill($(id), figures, ([title]) => title, ([title]) => {
    const value = el("dd");
    const tile = el("div", {}, el("dt", {}, title), value);
    tile.update = ([, text]) => {
      set(value, text);
      value.classList.toggle("words", text.length > 12);
    };
    return tile;
  });
}

/** A cell with the label that is shown beside it where the table is too narrow for columns. */
export const cell = (label, attributes, ...children) => el("td", { "data-label": label, ...attributes }, ...children);

/** Says `text` in the line `id`, which screen readers read out. */
export function say(id, text, isBad = false) {
  const line = $(id);
  line.classList.toggle("bad", isBad);
  set(line, text);
}

/** Runs what a button asks for; says why it failed. The button rests meanwhile. */
export async function acting(button, lineId, action) {
  if (button) button.disabled = true;
  try {
    await action();
  } catch (error) {
    if (error.name === "AbortError") return;
    const text = visible(error.message);
    say(lineId, text, true);
    untilItAnswers(error, () => { if ($(lineId).textContent === text) say(lineId, ""); });
  } finally {
    if (button) button.disabled = false;
  }
}

// Search -----------------------------------------------------------------------------------------------------------

/** Matches of one page. */
const MATCHES = 50;

function matchRow(match, actions) {
  const { shared_ms: shared, holders } = match;
  const { cells, update } = actions(match);
  const age = cell("shared", { class: "number" });
  const line = el("tr", { role: "row" },
    el("th", { scope: "row" }, named(match.name)),
    cell("version", { class: "number" }, `v${match.version}`),
    cell("size", { class: "number" }, bytes(match.size)),
    age,
    cell("holders", { class: "number" }, count(Array.isArray(holders) ? holders.length : holders)),
    cell("origin", {}, el("code", { title: match.origin }, match.origin.slice(0, 8))),
    ...cells);
  line.update = () => {
    set(age, shared ? `${span((now() - shared) / 1000)} ago` : "-");
    update();
  };
  line.update();
  return line;
}

/**
 * Connects the search form (`search`, `terms`, `found`, `found-line`, `more`). `actions(match)` gives the further cells
 * of a row, and `update`, which fills them in. Gives a function that does so again for all rows.
 */
export function searching(actions) {
  const [form, more] = [$("search"), $("more")];
  let [asked, next, running] = ["", null, null];
  const run = async (isFirst) => {
    running?.abort();
    running = new AbortController();
    say("found-line", "searching …");
    const answer = await ask(
      query("api/v1/search", { q: asked, limit: MATCHES, after: isFirst ? null : next }), { signal: running.signal });
    const rows = answer.hits.map((match) => matchRow(match, actions));
    if (isFirst) $("found").replaceChildren(...rows);
    else $("found").append(...rows);
    next = answer.next;
    more.hidden = !next;
    const shown = $("found").children.length;
    $("found-table").hidden = shown === 0;
    const { asked: all, answered } = answer.indexers;
    const partly = answer.complete ? "" : `; ${answered} of ${all} indexers answered`;
    say("found-line", shown === 0 ? `no name matches ${visible(asked)}${partly}`
      : `${plural(shown, "match", "matches")}${next ? ", and more" : ""}${partly}`);
  };
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    asked = $("terms").value.trim();
    if (asked) acting(null, "found-line", () => run(true));
  });
  more.addEventListener("click", () => acting(more, "found-line", () => run(false)));
  return () => { for (const row of $("found").children) row.update(); };
}
