// The details of one file: freshness, policy, subscribers, and the earlier versions to go back to.
import { $, acting, ask, bytes, cell, clock, count, el, fill, now, plural, query, say, set, showTiles, span, visible } from "./common.js";
import { doing } from "./note.js";
import { change } from "./token.js";
import { getAll, isFollowing } from "./transfers.js";

/** The name that is shown, and what was told of it. */
let [shown, told] = [null, null];
let onChange = () => {};

const PASSED_OVER = { failed: "the command of follow failed on it", "rolled-back": "it was rolled back" };

const STALENESS = {
  "serve-stale": "a stale copy is served and marked",
  bounded: "a stale copy is not served",
  strict: "each read asks the origin first",
};

/** What happens to this copy when a newer version is out. */
const ON_STALE = { keep: "it stays, marked as stale", refetch: "followed: the newer version takes its place", drop: "it is deleted" };

function policy(file) {
  return `${file.mode}: a copy is fresh for ${span(file.policy_bound_secs)}; ${STALENESS[file.staleness]}`;
}

const at = (ms) => `${new Date(ms).toLocaleDateString("en-GB")} ${clock(ms)}`;

function freshness(file) {
  const left = (file.fresh_until_ms - now()) / 1000;
  if (file.freshness === "fresh" && left > 0) return `fresh until ${clock(file.fresh_until_ms)}, ${span(left)} left`;
  return file.doubt ? visible(`${file.freshness}: ${file.doubt}`) : file.freshness;
}

function readerRow() {
  const [node, held, known, ends] = [el("code"), cell("had last", { class: "number" }), cell("told of", { class: "number" }), cell("lease ends in")];
  const line = el("tr", { role: "row" }, el("th", { scope: "row" }, node), held, known, ends);
  line.update = ({ reader, version }) => {
    set(node, `${reader.label ? `${visible(reader.label)}, ` : ""}${reader.node.slice(0, 8)} at ${reader.addr}`);
    set(held, `v${reader.holds}`);
    held.classList.toggle("bad", reader.holds < version);
    set(known, `v${reader.version}`);
    set(ends, span(reader.lease_ends_in_ms / 1000));
  };
  return line;
}

function keptRow(version) {
  const button = el("button", { type: "button", class: "small", onclick: () => goBack(version, button) }, "Go back",
    el("span", { class: "sr" }, ` to version ${version}`));
  return el("tr", { role: "row" }, el("th", { scope: "row" }, `v${version}`), cell(null, { class: "acts" }, button));
}

async function load() {
  const { files } = await ask(query("api/v1/status", { name: shown }));
  const file = files[0];
  if (!file) throw new Error("it is not here any more");
  told = file;
  const behind = file.readers.filter((reader) => reader.version < file.version).length;
  showTiles([["Freshness", freshness(file)], ["Version", `v${file.version}`], ["Size", bytes(file.size)],
    ["Policy", policy(file)], ["Origin", file.own ? "this peer" : file.origin.slice(0, 16)],
    ["Kind", file.set ? "a set: a folder with one version" : "a file"],
    ...(file.own ? [] : [["When outdated", isFollowing(file.name) ? "followed by a command that runs" : ON_STALE[file.on_stale] ?? "as --on-stale of this peer says"]]),
    ...(file.shared_ms ? [["Shared", at(file.shared_ms)]] : []),
    ...(file.confirmed_ms ? [["Confirmed", at(file.confirmed_ms)]] : []),
    ...(file.passed_over ? [["Skipped", `up to v${file.passed_over}: ${PASSED_OVER[file.passed_over_why]}`]] : []),
  ], "details-tiles");
  fill($("details-readers"), file.readers.map((reader) => ({ reader, version: file.version })), ({ reader }) => reader.node, readerRow);
  set($("details-readers-line"), `${plural(file.readers.length, "subscriber")}, ${count(behind)} not told of v${file.version} yet`);
  $("details-readers-table").hidden = file.readers.length === 0;
  fill($("details-kept"), file.kept, (version) => version, keptRow);
  $("details-kept-table").hidden = file.kept.length === 0;
  $("details-follow").hidden = file.own || isFollowing(file.name);
  set($("details-follow"), isFollowed(file) ? "Stop following" : "Follow");
}

const isFollowed = (file) => file.on_stale === "refetch";

/** What is shown of `name` is asked for again. */
export async function refreshDetails(name) {
  if ($("details-box").open && name === shown) await load();
}

function goBack(version, button) {
  return acting(button, "details-line", async () => {
    const done = await change("POST", "api/v1/rollback", { name: shown, version });
    say("details-line", `Version ${done.version} is in its place.`);
    await load();
    onChange();
  });
}

/** Opens the details of `name`. */
export function showDetails(name, button) {
  return doing(button, async () => {
    shown = name;
    await load();
    set($("h-details"), visible(name));
    say("details-line", "");
    $("details-box").showModal();
  });
}

/** `changed` is called when another version took the place. */
export function details(changed) {
  onChange = changed;
  $("details-follow").addEventListener("click", () => acting($("details-follow"), "details-line", () =>
    getAll([told], { on_stale: isFollowed(told) ? "keep" : "refetch" })));
  $("details-close").addEventListener("click", () => $("details-box").close());
}
