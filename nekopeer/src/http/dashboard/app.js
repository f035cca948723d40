// The page of a peer: its files and their freshness, search, events, and what it is connected to.
import { $, acting, ask, bytes, cell, clock, count, el, fill, live, named, now, plural, query, say, searching, set, showTiles, span, visible } from "/assets/common.js";
import { askToken, change, takeFromAddress } from "/assets/token.js";
import { showDetails, details } from "/assets/details.js";
import { download, publishing, replace, update, whenDone } from "/assets/transfers.js";

/** Files that are listed at first, which "more" doubles. */
const FILES = 100;
/** The peer lists no more in one answer; nobody reads on there. */
const FILES_MAX = 10000;
/** Time between two looks at figures that no event tells, in ms. */
const STATUS_MS = 5000;
/** Events that stay in the list. */
const EVENTS_SHOWN = 100;

/** The files listed, by name. */
const files = new Map();
let listed = FILES;
let isAllListed = false;

/** `action`, at most once in a while however often it is asked for. */
function gathered(action, ms) {
  let timer = null;
  return () => {
    timer ??= setTimeout(() => {
      timer = null;
      action().catch(() => {}); // the stream of events shows that the peer is away
    }, ms);
  };
}

const place = (name) => `/f/${name.split("/").map(encodeURIComponent).join("/")}`;

const open = (name) => el("a", { class: "button-like", href: place(name), target: "_blank", rel: "noopener noreferrer" }, "Open",
  el("span", { class: "sr" }, ` ${visible(name)} in a new tab`));

// Files ------------------------------------------------------------------------------------------------------------

function freshness(file) {
  if (file.own || file.freshness !== "fresh" || !file.fresh_until_ms) return "";
  const left = (file.fresh_until_ms - now()) / 1000;
  return left > 0 ? `fresh until ${clock(file.fresh_until_ms)}, ${span(left)} left` : "asking the origin …";
}

function fileRow({ name }) {
  const [version, size, role] = [cell("version", { class: "number" }), cell("size", { class: "number" }), cell("role")];
  const [pill, until] = [el("span", { class: "pill" }), el("small")];
  const newest = cell("newest", { class: "number" });
  const ticket = el("button", { type: "button", class: "small", onclick: () => showTicket(name, ticket) }, "Ticket",
    el("span", { class: "sr" }, ` of ${visible(name)}`));
  const update = el("button", { type: "button", class: "small", onclick: () => download(files.get(name), update) }, "Update",
    el("span", { class: "sr" }, ` ${visible(name)}`));
  const more = el("button", { type: "button", class: "small", onclick: () => showDetails(name, more) }, "Details",
    el("span", { class: "sr" }, ` of ${visible(name)}`));
  const opened = open(name);
  const line = el("tr", { role: "row" },
    el("th", { scope: "row" }, named(name)), version, size, role, newest, cell(null, { class: "wide" }, pill, until),
    cell(null, { class: "acts" }, opened, ticket, more, update));
  line.update = (file) => {
    if (version.textContent && version.textContent !== `v${file.version}`) line.className = "new";
    set(version, `v${file.version}`);
    set(size, bytes(file.size));
    set(role, `${file.own ? "own" : "copy"}${file.set ? ", set" : ""}, ${file.mode}`);
    opened.hidden = file.set;
    set(pill, file.freshness);
    pill.dataset.state = file.freshness;
    set(until, freshness(file));
    const latest = file.newest ?? file.version;
    set(newest, `v${latest}`);
    newest.classList.toggle("bad", latest > file.version);
    update.hidden = file.own || latest <= file.version;
  };
  return line;
}

async function loadFiles() {
  const { files: found, next, damaged } = await ask(query("/api/v1/catalogue", { first: listed }));
  isAllListed = !next;
  files.clear();
  for (const file of found) files.set(file.name, file);
  $("catalogue-more").hidden = !next || listed === FILES_MAX;
  const total = found.reduce((sum, file) => sum + file.size, 0);
  set($("catalogue-line"), `${next ? "the first " : ""}${plural(found.length, "file")}, ${bytes(total)}`);
  $("catalogue-table").hidden = found.length === 0;
  $("catalogue-none").hidden = found.length > 0;
  if (damaged?.length) say("catalogue-note", visible(`cannot be read: ${damaged.join("; ")}`), true);
  fill($("catalogue"), found, (file) => file.name, fileRow);
  refreshMatches();
}

const reload = gathered(loadFiles, 150);
/** Asked for where a bound has run out: the peer may know more, but need not. */
const reloadLater = gathered(loadFiles, 3000);

function tick() {
  if (document.hidden) return;
  for (const line of $("catalogue").children) {
    const file = files.get(line.key);
    if (file) line.update(file);
    if (file?.condition === "fresh" && file.fresh_until_ms < now()) reloadLater();
  }
}

function showTicket(name, button) {
  return acting(button, "catalogue-note", async () => {
    const { tickets } = await ask(query("/api/v1/ticket", { name }));
    const { ticket } = tickets[0];
    $("ticket").value = `nekopeer get ${ticket}`;
    say("ticket-line", "");
    $("ticket-box").showModal();
    $("ticket").select();
  });
}

function tickets() {
  $("ticket-close").addEventListener("click", () => $("ticket-box").close());
  $("ticket-copy").addEventListener("click", async () => {
    $("ticket").select();
    try {
      await navigator.clipboard.writeText($("ticket").value); // absent where the page came over plain HTTP
      say("ticket-line", "copied");
    } catch {
      say("ticket-line", document.execCommand("copy") ? "copied" : "selected: copy it with Ctrl-C");
    }
  });
}

// Search -----------------------------------------------------------------------------------------------------------

function matchActions(match) {
  const here = cell("here");
  const word = el("span");
  const get = el("button", { type: "button", class: "small", onclick: () => download(match, get) }, word,
    el("span", { class: "sr" }, ` ${visible(match.name)}`));
  const update = () => {
    const listed = files.get(match.name);
    const held = listed?.origin === match.origin ? listed : match.held;
    set(here, held ? `v${held.version}, ${held.freshness}` : "no");
    set(word, held ? "Update" : "Get");
    get.hidden = Boolean(held && (held.own || held.version >= match.version));
  };
  return { cells: [here, cell(null, { class: "acts" }, open(match.name), get)], update };
}

// Events -----------------------------------------------------------------------------------------------------------

/** What the peer's events are called. */
const EVENTS = ["connected", "away", "not-listed", "key-in-use", "registered", "invalidated", "refreshed", "dropped", "origin-away",
  "withdrawn", "followed", "refused", "rolled-back", "changed", "renumbered", "published-elsewhere", "failed", "job-ended", "job", "missed"];

function log(kind, data) {
  const line = el("li", { class: "new" }, el("time", { datetime: new Date(now()).toISOString() }, clock(now())),
    visible(data.text ?? `${kind} ${data.name ?? ""}`));
  $("events").prepend(line);
  while ($("events").children.length > EVENTS_SHOWN) $("events").lastChild.remove();
  $("events-none").hidden = true;
}

function onEvent(kind, data) {
  if (kind === "job") return update(data);
  if (kind === "missed") {
    log(kind, { text: "events came too fast, some are not shown" });
    return loadAll().catch(() => {});
  }
  log(kind, data);
  reload();
  reloadStatus();
}

// This peer --------------------------------------------------------------------------------------------------------

function linkRow() {
  const [addr, state, why] = [el("code"), el("span", { class: "pill" }), el("small")];
  const line = el("tr", { role: "row" }, el("th", { scope: "row" }, addr), cell(null, {}, state, why));
  line.update = (link) => {
    set(addr, link.addr);
    set(state, link.connected ? "connected" : "away");
    state.dataset.state = link.connected ? "up" : "down";
    set(why, visible(link.why ?? ""));
  };
  return line;
}

async function loadStatus() {
  const status = await ask("/status");
  const { files: counted, traffic } = status;
  const all = [...files.values()];
  const stale = all.filter((file) => !file.own && file.newest > file.version).length;
  const own = all.filter((file) => file.own).length;
  // What is listed is newer than what was counted, and may be a part.
  const held = isAllListed ? { own, copies: all.length - own, stale } : counted;
  set($("who"), `${status.node} · network ${visible(status.network)} · version ${status.version}`);
  showTiles([["Serves on", status.listen ?? "nothing"], ["Uptime", span(status.uptime_s)],
    ["Published", held ? count(held.own) : "…"], ["Copies", held ? `${count(held.copies)}, ${count(held.stale)} stale` : "…"],
    ["Sent", bytes(traffic.bytes_up)], ["Received", bytes(traffic.bytes_down)],
    ["Memory", status.memory_bytes ? bytes(status.memory_bytes) : "unknown"], ["Readers now", count(traffic.uploads_active)],
    ["Subscribers", counted ? `${count(counted.readers)}, ${count(counted.behind)} behind` : "…"]]);
  const links = status.indexers;
  fill($("links"), links, (link) => link.addr, linkRow);
  $("links-table").hidden = links.length === 0;
}

const reloadStatus = gathered(loadStatus, 1000);
const loadJobs = async () => replace((await ask("/api/v1/jobs")).jobs);
const loadAll = () => Promise.all([loadFiles().then(loadStatus), loadJobs()]);

takeFromAddress();
const refreshMatches = searching(matchActions);
publishing();
tickets();
details(reload);
whenDone(reload);
$("catalogue-more").addEventListener("click", () => acting($("catalogue-more"), "catalogue-note", () => {
  listed = Math.min(FILES_MAX, 2 * listed);
  return loadFiles();
}));
$("token-open").addEventListener("click", () => askToken().catch(() => {}));
$("token-cancel").addEventListener("click", () => $("token-box").close());
live("/api/v1/events", EVENTS, onEvent, loadAll);
setInterval(tick, 1000);
setInterval(() => { if (!document.hidden) reloadStatus(); }, STATUS_MS);
