// The page of an indexer: queries, answer times, dropped requests, neighbors, and the names that it lists.
import { $, ask, bytes, cell, count, el, fill, live, plural, searching, set, showTiles, span, visible } from "./common.js";
import { bars, curve } from "./charts.js";

/** Seconds that the curve shows. */
const SECONDS = 120;
/** Time between two looks at the neighbors, in ms. */
const NEIGHBORS_MS = 2000;

/** Queries per second, the oldest first. */
const rates = [];
/** The second of the latest of them, as the indexer counts. */
let latest = -1;

// Figures ----------------------------------------------------------------------------------------------------------

/** What each limit is called. */
const LIMITS = {
  connections: "Connections",
  forwards: "Queries at neighbors",
  scans: "Searches under way",
  seen_messages: "Message ids remembered",
  summaries: "Memory of neighbors' summaries",
  memory: "Memory for other nodes",
};

/** The neighbors that are connected, as a text; they are asked for less often than the other stats. */
let connected = "…";
/** The last stats that were shown. */
let last = null;

function showFigures(figures) {
  last = figures;
  showTiles([
    ["Queries", `${count(figures.queries_per_s)} per s`], ["Names listed", count(figures.names)],
    ["Peers connected", count(figures.holders)], ["Neighbors connected", connected],
  ]);
  const used = Object.entries(figures.budget).map(([name, { used, max, used_bytes: usedBytes, max_bytes: maxBytes }]) => {
    const text = maxBytes === undefined ? `${count(used)} of ${count(max)}` : `${bytes(usedBytes)} of ${bytes(maxBytes)}`;
    return [LIMITS[name] ?? name, text];
  });
  showTiles([
    ["Uptime", span(figures.uptime_ms / 1000)], ["Memory of the process", figures.memory_bytes ? bytes(figures.memory_bytes) : "unknown"],
    ["Answers since the start", count(figures.queries)], ["Queries forwarded", count(figures.forwarded)],
    ["Records registered", count(figures.registered)], ["Invalidations", count(figures.invalidations)], ...used,
  ], "figures");
}

function showRate({ queries_per_s: rate, queries_per_s_10: mean, uptime_ms: uptime }) {
  const second = Math.floor(uptime / 1000);
  if (second === latest) return;
  latest = second;
  rates.push(rate);
  if (rates.length > SECONDS) rates.shift();
  const peak = Math.max(...rates);
  curve($("rate"), rates, SECONDS,
    `Queries per second in the last ${plural(rates.length, "second")}: now ${count(rate)}, at most ${count(peak)}`);
  set($("rate-line"), `now ${count(rate)} per s, in the last 10 s ${count(mean)} per s`);
  set($("rate-from"), `${SECONDS} s ago`);
  set($("rate-peak"), `at most ${count(peak)} per s`);
}

const duration = (ms) => (ms < 1 ? `${count(ms * 1000)} µs` : ms < 1000 ? `${count(ms)} ms` : `${count(ms / 1000)} s`);

/** `buckets` without empty ones before the first and after the last answer. */
function trimmed(buckets) {
  const first = buckets.findIndex((bucket) => bucket.count > 0);
  const last = buckets.findLastIndex((bucket) => bucket.count > 0);
  return first < 0 ? [] : buckets.slice(Math.max(0, first - 1), last + 2);
}

function showLatency({ buckets, p50_ms: half, p99_ms: most }) {
  const shown = trimmed(buckets);
  const text = half === null ? "no answers in the last 10 s"
    : `in the last 10 s half of the answers took at most ${duration(half)}, 99 % at most ${duration(most)}`;
  const told = shown.filter((bucket) => bucket.count > 0).map((bucket) =>
    `${bucket.le_ms === null ? "longer" : `up to ${duration(bucket.le_ms)}`}: ${count(bucket.count)}`);
  bars($("latency"), shown.map((bucket) => bucket.count), `Answers since the start by their time. ${told.join(", ")}`);
  const ends = shown.length < 2 ? shown : [shown[0], shown.at(shown.length / 2), shown.at(-1)];
  fill($("latency-scale"), [...ends.entries()], ([place]) => place, () => {
    const mark = el("span");
    mark.update = ([, { le_ms: end }]) => set(mark, end === null ? "longer" : `≤ ${duration(end)}`);
    return mark;
  });
  set($("latency-line"), text);
}

function dropRow() {
  const [reason, number] = [el("th", { scope: "row" }), cell(null, { class: "number" })];
  const line = el("tr", { role: "row" }, reason, number);
  line.update = ([name, value]) => {
    set(reason, name.replaceAll("_", " "));
    set(number, count(value));
  };
  return line;
}

function showDrops(drops) {
  const some = Object.entries(drops).filter(([, value]) => value > 0).sort((a, b) => b[1] - a[1]);
  fill($("drops"), some, ([name]) => name, dropRow);
  $("drops-table").hidden = some.length === 0;
  $("drops-none").hidden = some.length > 0;
}

function show(figures) {
  showFigures(figures);
  showRate(figures);
  showLatency(figures.latency);
  showDrops(figures.drops);
}

// Neighbors --------------------------------------------------------------------------------------------------------

function health(neighbor) {
  if (!neighbor.connected) return ["away", visible(neighbor.why ?? "")];
  if (neighbor.late) return ["slow", "it answers too few queries"];
  if (!neighbor.asked) return [neighbor.standing === "guest" ? "unverified" : "slow", visible(neighbor.why ?? "")];
  return ["up", neighbor.standing === "configured" ? "" : neighbor.standing];
}

function neighborRow() {
  const [addr, node, pill, why] = [el("code"), el("code"), el("span", { class: "pill" }), el("small")];
  const [load, summary] = [cell("open queries", { class: "number" }), cell("summary")];
  const line = el("tr", { role: "row" }, el("th", { scope: "row" }, addr), cell(null, { class: "wide" }, pill, why),
    cell("node", {}, node), load, summary);
  line.update = (neighbor) => {
    const [state, text] = health(neighbor);
    set(addr, neighbor.addr ?? "address unknown");
    set(pill, state);
    pill.dataset.state = state;
    set(why, text);
    set(node, neighbor.node ? neighbor.node.slice(0, 8) : "-");
    node.title = neighbor.node ?? "";
    set(load, count(neighbor.load));
    const word = neighbor.silent_ms === null ? "" : `, ${count(Math.round(neighbor.silent_ms / 100) / 10)} s ago`;
    set(summary, `${neighbor.summary_current ? "trusted" : "not trusted"}${word}`);
  };
  return line;
}

function showNeighbors(neighbors) {
  fill($("neighbors"), neighbors, (neighbor) => `${neighbor.addr} ${neighbor.node}`, neighborRow);
  const up = neighbors.filter((neighbor) => neighbor.connected).length;
  set($("neighbors-caption"), `${count(up)} of ${plural(neighbors.length, "neighbor")} connected`);
  connected = `${count(up)} of ${count(neighbors.length)}`;
  if (last) showFigures(last);
  $("neighbors-table").hidden = neighbors.length === 0;
  $("neighbors-none").hidden = neighbors.length > 0;
}

async function look() {
  const status = await ask("status");
  set($("who"), `${status.node} · network ${visible(status.network)} · ${status.listen} · version ${status.version}`);
  show(status);
  showNeighbors(status.neighbors);
}

searching(() => ({ cells: [], update() {} }));
live("api/v1/events", ["figures", "missed"], (kind, data) => { if (kind === "figures") show(data); }, look);
setInterval(async () => {
  if (document.hidden) return;
  await ask("api/v1/neighbors").then((answer) => showNeighbors(answer.neighbors), () => {}); // "live" tells
}, NEIGHBORS_MS);
