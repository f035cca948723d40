// The page of an indexer: what it is asked, how fast it answers, what it drops, its neighbors, and the names it lists.
import { $, ask, bytes, cell, count, el, fill, live, plural, searching, set, span, visible } from "/assets/common.js";
import { bars, curve } from "/assets/charts.js";

/** Seconds that the curve shows. */
const SECONDS = 120;

/** Queries per second, the oldest first. */
const rates = [];
/** The figures before the latest ones, and when they came, in ms of this page. */
let before = null;

function tileRow([title]) {
  const value = el("dd");
  const tile = el("div", {}, el("dt", {}, title), value);
  tile.update = ([, text]) => set(value, text);
  return tile;
}

/** Queries per second since the figures before. */
function showRate(figures) {
  const at = performance.now();
  if (before && at - before.at < 500) return rates.at(-1) ?? 0; // two ways to the same figures, at once
  const passed = before && (at - before.at) / 1000;
  const rate = passed ? Math.max(0, figures.queries - before.queries) / passed : 0;
  before = { at, queries: figures.queries };
  if (passed) rates.push(rate);
  if (rates.length > SECONDS) rates.shift();
  const peak = Math.max(0, ...rates);
  curve($("rate"), rates, SECONDS,
    `Queries per second over the last ${rates.length} seconds: now ${count(rate)}, at most ${count(peak)}`);
  set($("rate-from"), `${SECONDS} s ago`);
  set($("rate-peak"), `at most ${count(peak)}/s`);
  return rate;
}

const duration = (us) => (us < 1000 ? `${count(us)} µs` : us < 1e6 ? `${count(us / 1000)} ms` : `${count(us / 1e6)} s`);

/** The least bound below which `share` of all answers are. */
function quantile(buckets, share) {
  const total = buckets.reduce((sum, bucket) => sum + bucket.count, 0);
  let seen = 0;
  for (const bucket of buckets) {
    seen += bucket.count;
    if (seen >= total * share) return bucket.le_us === null ? "longer than that" : `≤ ${duration(bucket.le_us)}`;
  }
  return "";
}

function showLatency(buckets) {
  const total = buckets.reduce((sum, bucket) => sum + bucket.count, 0);
  const text = total === 0 ? "no answers yet"
    : `half of ${plural(total, "answer")} ${quantile(buckets, 0.5)}, 99 % ${quantile(buckets, 0.99)}`;
  bars($("latency"), buckets.map((bucket) => bucket.count), `Time of an answer: ${text}`);
  const bound = (place) => el("span", {}, buckets[place]?.le_us ? `≤ ${duration(buckets[place].le_us)}` : "longer");
  if (!$("latency-scale").firstChild && buckets.length) {
    $("latency-scale").append(bound(0), bound(Math.floor(buckets.length / 2)), bound(buckets.length - 1));
  }
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
