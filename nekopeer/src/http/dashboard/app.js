// The page of a peer: its files and their freshness, search, events, and the indexers that it is connected to.
import { $, ask, bytes, cell, clock, count, el, fill, live, now, plural, query, searching, set, showTiles, span, visible } from "./common.js";
import { details, refreshDetails } from "./details.js";
import { browsing, fileHere, isAnyOver, loadFiles } from "./files.js";
import { media, opener } from "./media.js";
import { doing, isConfirmed, notes, tell } from "./note.js";
import { showThrottle, throttling } from "./throttle.js";
import { tickets } from "./tickets.js";
import { askToken, takeFromAddress } from "./token.js";
import { download, getAll, publishing, replace, update, whenDone } from "./transfers.js";

/** Time between two requests for stats that no event tells, in ms. */
const STATUS_MS = 5000;
/** Time between two looks at the ages of what was found, in ms. */
const AGES_MS = 10000;
/** Events that stay in the list. */
const EVENTS_SHOWN = 100;
/** Matches in one answer where all are asked for. */
const MATCHES_MAX = 10000;

/**
 * `action`, at most once in `ms` however often it is asked for. After a run that took long it waits twice as long as
 * that: a large catalogue is not read all the time.
 */
function gathered(action, ms) {
  let [timer, took] = [null, 0];
  return () => {
    timer ??= setTimeout(async () => {
      const began = performance.now();
      await action().catch(() => {}); // the stream of events shows that the peer is away
      took = performance.now() - began;
      timer = null;
    }, Math.max(ms, 2 * took));
  };
}

const reload = gathered(loadFiles, 150);
/** Asked for where a copy is past its bound: the peer may have confirmed it, but need not. */
const reloadLater = gathered(loadFiles, 3000);

// Search -----------------------------------------------------------------------------------------------------------

/** What this peer has of names that were found and have changed since, by name. */
const here = new Map();
/** Rows of names that were found. */
const found = new Map();

function matchActions(match) {
  const held = cell("here");
  const word = el("span");
  const get = el("button", { type: "button", class: "small", onclick: () => download(match, get) }, word,
    el("span", { class: "sr" }, ` ${visible(match.name)}`));
  const follow = el("button", { type: "button", class: "small", title: "Newer versions are fetched as they come",
    onclick: () => download(match, follow, { on_stale: "refetch" }) }, "Follow", el("span", { class: "sr" }, ` ${visible(match.name)}`));
  const opened = opener(match.name);
  opened.hidden = match.set ?? false;
  here.delete(match.name); // the answer is newer
  const update = () => {
    const file = here.has(match.name) ? here.get(match.name) : match.held;
    const own = file && (file.origin === undefined || file.origin === match.origin) ? file : null;
    set(held, own ? `v${own.version}, ${own.freshness}` : "no");
    set(word, own ? "Update" : "Get");
    get.hidden = Boolean(own && (own.own || own.version >= match.version));
    follow.hidden = Boolean(own?.own);
  };
  found.set(match.name, update);
  return { cells: [held, cell(null, { class: "acts" }, opened, get, follow)], update };
}

/** Gets all that match `q` and are not shared here, also those that are not listed. */
async function getMatches(q, options) {
  let [hits, after] = [[], null];
  do {
    const answer = await ask(query("api/v1/search", { q, limit: MATCHES_MAX, after }));
    hits.push(...answer.hits);
    after = answer.next;
  } while (after);
  const [clear, several] = [[], []];
  for (const some of Map.groupBy(hits, (match) => match.name).values()) (some.length === 1 ? clear : several).push(some[0]);
  const isWanted = ({ held, version }) => !held || (!held.own && (options || held.version < version));
  const all = clear.filter(isWanted);
  const left = several.length ? ` ${plural(several.length, "name")} of several origins are left out: choose one of each.` : "";
  if (all.length === 0) return tell(`All that match ${q} are here.${left}`);
  const what = `${plural(all.length, "file")}, ${bytes(all.reduce((sum, match) => sum + match.size, 0))}, that match ${q}.${left}`;
  const word = options ? "Follow" : "Get";
  if (await isConfirmed(`${word} all`, what, word)) await getAll(all, options);
}

/** Connects the buttons for all that was searched for. */
function gettingAll() {
  let q = "";
  const buttons = { "get-matches": undefined, "follow-matches": { on_stale: "refetch" } };
  for (const [id, options] of Object.entries(buttons)) {
    $(id).addEventListener("click", () => doing($(id), () => getMatches(q, options)));
  }
  $("search").addEventListener("submit", () => {
    q = $("terms").value.trim();
    for (const id of Object.keys(buttons)) $(id).hidden = !q;
  });
}

/** Something happened to `name`: where it was found, what this peer has of it is asked for again. */
async function refresh(name) {
  if (!found.has(name)) return;
  here.set(name, await fileHere(name));
  refreshMatches();
}

// Events -----------------------------------------------------------------------------------------------------------

/** Names of the peer's events. */
const EVENTS = ["connected", "away", "not-listed", "key-in-use", "registered", "invalidated", "refreshed", "dropped", "origin-away",
  "unshared", "followed", "refused", "rolled-back", "changed", "renumbered", "shared-elsewhere", "failed", "job-ended", "job", "missed"];

function log(kind, data) {
  const line = el("li", { class: "new" }, el("time", { datetime: new Date(now()).toISOString() }, clock(now())),
    el("span", {}, visible(data.text ?? `${kind} ${data.name ?? ""}`)));
  $("events").prepend(line);
  while ($("events").children.length > EVENTS_SHOWN) $("events").lastChild.remove();
  $("events-none").hidden = true;
}

function onEvent(kind, data) {
  if (kind === "job") return update(data);
  if (kind === "missed") {
    log(kind, { text: `${count(data.missed)} events came too fast and are not listed` });
    return loadAll().catch(() => {});
  }
  log(kind, data);
  reload();
  reloadStatus();
  if (data.name) refresh(data.name).catch(() => {});
}

// This peer --------------------------------------------------------------------------------------------------------

function linkRow() {
  const [addr, state, why] = [el("code"), el("span", { class: "pill" }), el("small")];
  const line = el("tr", { role: "row" }, el("th", { scope: "row" }, "indexer ", addr), cell(null, {}, state, why));
  line.update = (link) => {
    set(addr, link.addr);
    set(state, link.connected ? "connected" : "away");
    state.dataset.state = link.connected ? "up" : "down";
    set(why, visible(link.why ?? ""));
  };
  return line;
}

const subscribers = ({ readers, behind }) => readers ? `${plural(readers, "lease")}${behind ? `, ${count(behind)} behind` : ""}` : "none";

async function loadStatus() {
  const status = await ask("status");
  const { files: counted, traffic } = status;
  set($("who"), `${status.node.slice(0, 16)}… · network ${visible(status.network)} · version ${status.version}`);
  $("who").title = status.node;
  showTiles([["Serves on", status.listen ?? "nothing"], ["Uptime", span(status.uptime_ms / 1000)],
    ["Shared", counted ? plural(counted.own, "file") : "…"],
    ["Copies", counted ? plural(counted.copies, "file") : "…"],
    ["Sent", bytes(traffic.bytes_up)], ["Received", bytes(traffic.bytes_down)],
    ["Uploads", `${count(traffic.uploads_active)} now, ${count(traffic.uploads_waiting)} waiting`],
    ["Subscribers", counted ? subscribers(counted) : "…"],
    ["Memory", status.memory_bytes ? bytes(status.memory_bytes) : "unknown"]]);
  fill($("links"), status.indexers, (link) => link.addr, linkRow);
  $("links-table").hidden = status.indexers.length === 0;
  showThrottle(traffic);
}

const reloadStatus = gathered(loadStatus, 1000);
const loadJobs = async () => replace((await ask("api/v1/jobs")).jobs);
const loadAll = () => Promise.all([loadFiles(), loadStatus(), loadJobs()]);

takeFromAddress();
notes();
browsing((page) => {
  for (const [name, file] of page) if (found.has(name)) here.set(name, file);
  refreshMatches();
});
const refreshMatches = searching(matchActions);
gettingAll();
publishing();
throttling();
tickets();
media();
details(reload);
whenDone((name) => {
  reload();
  if (name) Promise.all([refresh(name), refreshDetails(name)]).catch(() => {});
});
$("token-open").addEventListener("click", () => askToken().catch(() => {}));
$("token-cancel").addEventListener("click", () => $("token-box").close());
live("api/v1/events", EVENTS, onEvent, loadAll);
setInterval(() => { if (!document.hidden && isAnyOver()) reloadLater(); }, 1000);
setInterval(refreshMatches, AGES_MS);
setInterval(() => { if (!document.hidden) reloadStatus(); }, STATUS_MS);
