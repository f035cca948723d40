// What is known of one file: its policy, who reads it and who is behind, and the earlier versions to go back to.
import { $, acting, ask, cell, clock, count, el, fill, query, say, set, showTiles, span, visible } from "/assets/common.js";
import { change } from "/assets/token.js";

/** The name that is shown. */
let shown = null;
let onChange = () => {};

const PASSED_OVER = { failed: "the command of follow failed on it", "rolled-back": "it was rolled back" };

const STALENESS = {
  "serve-stale": "served as stale past that",
  bounded: "not served past that",
  strict: "and each read is confirmed by the origin, or refused",
};

function policy(file) {
  const bound = { push: file.lease_secs, pull: file.ttr_secs, hybrid: Math.min(file.lease_secs, file.ttr_secs) }[file.mode];
  return `${file.mode}, fresh for ${span(bound)}, ${STALENESS[file.staleness]}`;
}

function readerRow() {
  const [node, known, ends] = [el("code"), cell("knows", { class: "number" }), cell("lease ends in")];
  const line = el("tr", { role: "row" }, el("th", { scope: "row" }, node), known, ends);
  line.update = ({ reader, version }) => {
    set(node, `${reader.node.slice(0, 8)} at ${reader.addr}`);
    set(known, `v${reader.version}`);
    known.classList.toggle("bad", reader.version < version);
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
  const { files } = await ask(query("/api/v1/status", { name: shown }));
  const file = files[0];
  if (!file) throw new Error("it is not here any more");
  const behind = file.readers.filter((reader) => reader.version < file.version).length;
  showTiles([["Version", `v${file.version}`], ["Freshness", file.freshness], ["Policy", policy(file)],
    ["Kind", file.set ? "a set: a folder" : "a file"], ["Place", visible(file.path)],
    ...(file.confirmed_ms ? [["Confirmed at", clock(file.confirmed_ms)]] : []),
    ...(file.passed_over ? [["Passed over", `up to v${file.passed_over}: ${PASSED_OVER[file.passed_over_why]}`]] : []),
  ], "details-tiles");
  fill($("details-readers"), file.readers.map((reader) => ({ reader, version: file.version })), ({ reader }) => reader.node, readerRow);
  set($("details-readers-line"), `Readers with a lease: ${count(file.readers.length)}, ${count(behind)} behind`);
  $("details-readers-table").hidden = file.readers.length === 0;
  fill($("details-kept"), file.kept, (version) => version, keptRow);
  $("details-kept-table").hidden = file.kept.length === 0;
}

function goBack(version, button) {
  return acting(button, "details-line", async () => {
    const done = await change("POST", "/api/v1/rollback", { name: shown, version });
    say("details-line", `version ${done.version} is in its place`);
    await load();
    onChange();
  });
}

/** Opens the details of `name`. */
export function showDetails(name, button) {
  return acting(button, "catalogue-note", async () => {
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
  $("details-close").addEventListener("click", () => $("details-box").close());
}
