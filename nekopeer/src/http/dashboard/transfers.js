// Transfers that run: the peer's jobs and this page's uploads, with their progress; sharing by drop or by choice.
import { $, acting, bytes, cell, el, fill, named, now, plural, query, Refused, say, set, span, visible } from "./common.js";
import { doing, isConfirmed, tell } from "./note.js";
import { bearer, change, withToken } from "./token.js";

/** Files of one drop. */
const FILES_MAX = 1000;

/** What a job of each kind is doing. */
const RUNNING = { get: "downloading", refetch: "refreshing", share: "sharing", store: "sharing", read: "reading",
  watch: "watching", follow: "following" };
/** The same as a noun. */
const WORK = { get: "download", refetch: "update", share: "share", store: "upload", read: "read", watch: "watch", follow: "follow" };
/** Kinds of jobs that run until they are cancelled and may move nothing. */
const STANDING = ["watch", "follow"];

/** Kinds of jobs that wait while downloads are paused. */
const FETCHING = ["get", "refetch", "read"];

/** Jobs that have ended and are remembered. */
const ENDED_MAX = 1000;
/** Bytes of the names in one request: its body has a limited length. */
const NAMES_BYTES = 512 * 1024;

/** Jobs of the peer and uploads of this page, by id. */
const transfers = new Map();
/** Jobs that have ended, the latest last: what was said of them before may arrive after that. */
const ended = new Map();
/** What this page asked for, by the id of its job. */
const asked = new Map();
let onDone = () => {};
let isPaused = false;

/** Downloads are paused, or go on. */
export function pausing(is) {
  if (isPaused === is) return;
  isPaused = is;
  show();
}

/** `done(name)` is called when a transfer has ended. */
export const whenDone = (done) => { onDone = done; };

function progressText(job) {
  const total = job.total_bytes ?? 0;
  const share = total ? `, ${Math.floor((100 * job.done_bytes) / total)} %` : "";
  const seconds = (now() - job.started_ms) / 1000;
  const rate = (job.done_bytes - (job.kept_bytes ?? 0)) / seconds;
  const speed = seconds > 0.5 && rate > 0 ? `, ${bytes(rate)}/s` : "";
  const left = speed && total ? `, ${span((total - job.done_bytes) / rate)} left` : "";
  return `${bytes(job.done_bytes)}${total ? ` of ${bytes(total)}` : ""}${share}${speed}${left}`;
}

function row(first) {
  const bar = el("progress", { "aria-label": `Progress of ${visible(first.name ?? first.kind)}` });
  const text = el("small");
  const state = el("span", { class: "pill", "data-state": "running" });
  const cancel = el("button", { type: "button", class: "small", onclick: () => stop(first.id, cancel) }, "Cancel",
    el("span", { class: "sr" }, ` ${visible(first.name ?? first.kind)}`));
  const line = el("tr", { role: "row" },
    el("th", { scope: "row" }, named(first.name ?? first.kind)),
    cell(null, { class: "wide" }, bar, text), cell(null, {}, state), cell(null, { class: "acts" }, cancel));
  line.update = (job) => {
    if (job.total_bytes) {
      bar.max = job.total_bytes;
      bar.value = job.done_bytes;
    } else bar.removeAttribute("value");
    set(text, progressText(job));
    const waits = isPaused && FETCHING.includes(job.kind);
    set(state, waits ? "paused" : RUNNING[job.kind] ?? job.kind);
    state.dataset.state = waits ? "polling" : "running";
  };
  return line;
}

function standingRow(first) {
  const cancel = el("button", { type: "button", class: "small", onclick: () => stop(first.id, cancel) }, "Cancel",
    el("span", { class: "sr" }, ` ${visible(first.name ?? first.kind)}`));
  return el("tr", { role: "row" }, el("th", { scope: "row" }, `${RUNNING[first.kind]} `, named(first.name ?? "")),
    cell(null, { class: "acts" }, cancel));
}

function stop(id, button) {
  const job = transfers.get(id);
  if (job?.abort) return job.abort();
  return doing(button, () => change("DELETE", `api/v1/jobs/${encodeURIComponent(id)}`));
}

function show() {
  for (const [id, job] of transfers) if (job.state !== "running") transfers.delete(id);
  const all = [...transfers.values()].sort((a, b) => b.started_ms - a.started_ms);
  const uploads = new Set(all.filter((job) => job.isUpload).map((job) => job.name));
  // An upload of this page is a job of the peer too: it is shown once.
  const isShown = (job) => job.kind !== "store" || job.isUpload || !uploads.has(job.name);
  const moving = all.filter((job) => !STANDING.includes(job.kind) && isShown(job));
  const standing = all.filter((job) => STANDING.includes(job.kind));
  fill($("transfers"), moving, (job) => job.id, row);
  fill($("standing"), standing, (job) => job.id, standingRow);
  $("strip").hidden = moving.length === 0;
  $("standing-table").hidden = standing.length === 0;
}

function note(job) {
  if (ended.has(job.id)) return;
  const isKnown = transfers.has(job.id);
  transfers.set(job.id, job);
  if (job.state === "running") return;
  ended.set(job.id, job);
  if (ended.size > ENDED_MAX) ended.delete(ended.keys().next().value);
  if (isKnown) told(job);
}

/** Says how a job ended. */
function told(job) {
  const body = asked.get(job.id);
  asked.delete(job.id);
  const follows = { refetch: "is complete, and newer versions are fetched as they come.", keep: "is complete, and newer versions are not fetched." };
  const what = { done: follows[body?.on_stale] ?? "is complete.", failed: `failed: ${job.error ?? ""}`, cancelled: "was cancelled." }[job.state];
  let offer = body && job.state !== "done" ? { word: "Get again", act: () => get(body) } : null;
  if (offer && job.remedy === "force" && !body.force) offer = { word: "Replace …", act: () => replaceChanged(job, body) };
  tell(`The ${WORK[job.kind] ?? job.kind}${job.name ? ` of ${job.name}` : ""} ${what}`, job.state === "failed", offer);
  onDone(job.name);
}

/** Asks for the same again, in the place of what stands there. */
async function replaceChanged(job, body) {
  const what = `Get ${job.name}: a file that stands in its place, and was changed here or is no copy, is replaced.`;
  if (await isConfirmed("Replace", what, "Replace")) await get({ ...body, force: true });
}

/** Whether a command that runs follows `name` alone. */
export const isFollowing = (name) => [...transfers.values()].some((job) => job.kind === "follow" && job.name === name);

/** Takes what the peer says of one job. */
export function update(job) {
  note(job);
  show();
}

/** Takes all jobs of the peer; what it does not list any more is gone. */
export function replace(jobs) {
  const listed = new Set(jobs.map((job) => job.id));
  for (const [id, job] of transfers) if (!job.isUpload && !listed.has(id)) transfers.delete(id);
  jobs.forEach(note);
  show();
}

async function get(body) {
  const job = await change("POST", "api/v1/get", body);
  asked.set(job.id, body);
  const end = ended.get(job.id); // it may have been quicker than the answer
  if (end) told(end);
  else update(job);
}

/** Has the peer fetch `files`, with these `options`: a job for each origin, unless there are very many. */
export async function getAll(files, options = {}) {
  for (const [origin, some] of Map.groupBy(files, (file) => file.origin)) {
    for (let names = some.map((file) => file.name); names.length > 0;) {
      let [taken, room] = [0, NAMES_BYTES];
      while (taken < names.length && room > 0) room -= 3 * JSON.stringify(names[taken++]).length; // UTF-8 takes no more
      await get({ names: names.splice(0, taken), origin, ...options });
    }
  }
}

export const download = (match, button, options) => doing(button, () => getAll([match], options));

// Sharing ----------------------------------------------------------------------------------------------------------

function put(job, file, token) {
  return new Promise((done, fail) => {
    const request = new XMLHttpRequest(); // `fetch` does not tell the progress of a body
    request.open("PUT", query("api/v1/files", { name: job.name }));
    for (const [name, value] of Object.entries(bearer(token))) request.setRequestHeader(name, value);
    request.upload.onprogress = (event) => update(Object.assign(job, { done_bytes: event.loaded }));
    request.onerror = () => fail(new Error("the connection broke: is the peer still running?"));
    request.onabort = () => fail(new DOMException("cancelled", "AbortError"));
    request.onload = () => {
      let answer = {};
      try { answer = JSON.parse(request.responseText); } catch { /* it says nothing, or no JSON */ }
      if (request.status < 300) done(answer);
      else fail(new Refused(request.status, answer));
    };
    job.abort = () => request.abort();
    request.send(file);
  });
}

async function publishOne(name, file) {
  const job = {
    id: `upload-${crypto.getRandomValues(new Uint32Array(1))[0]}`, kind: "store", name, isUpload: true,
    state: "running", done_bytes: 0, total_bytes: file.size, started_ms: now(),
  };
  try {
    const answer = await withToken((token) => {
      update(job);
      return put(job, file, token);
    });
    const failed = answer.failed?.[0];
    if (failed) throw new Error(failed.error ?? "it could not be shared");
    update({ ...job, abort: null, state: "done" });
    return answer.files?.[0] ?? {};
  } catch (error) {
    const isCancelled = error.name === "AbortError";
    if (transfers.has(job.id)) {
      update({ ...job, abort: null, state: isCancelled ? "cancelled" : "failed", error: isCancelled ? null : error.message });
    }
    throw error;
  }
}

/** The files below `entry`, with their paths; folders are followed. */
async function below(entry, found) {
  if (found.length > FILES_MAX) return;
  if (entry.isFile) {
    const file = await new Promise((give, fail) => { entry.file(give, fail); });
    found.push({ path: entry.fullPath.replace(/^\/+/, ""), file });
    return;
  }
  const reader = entry.createReader();
  for (;;) { // a folder is told in parts
    const part = await new Promise((give, fail) => { reader.readEntries(give, fail); });
    if (part.length === 0) return;
    for (const one of part) await below(one, found);
  }
}

async function publish(files) {
  if (files.length > FILES_MAX) {
    throw new Error(`more than ${FILES_MAX} files: share the folder with \`nekopeer share FOLDER\``);
  }
  const folder = $("under").value.trim().replace(/^\/+|\/+$/g, "");
  const [told, failed] = [[], []];
  for (const { path, file } of files) {
    const name = folder ? `${folder}/${path}` : path;
    say("publish-line", `sharing ${visible(name)} …`);
    try {
      const { version } = await publishOne(name, file);
      told.push(`${name}${version ? ` as version ${version}` : ""}`);
    } catch (error) {
      if (error.name === "AbortError") break;
      failed.push(`${name}: ${error.message}`);
    }
  }
  if (failed.length) say("publish-line", visible(`not shared: ${failed.join("; ")}`), true);
  else if (told.length === 1) say("publish-line", visible(`shared ${told[0]}`));
  else if (told.length) say("publish-line", `shared ${plural(told.length, "file")}`);
  else say("publish-line", "not shared");
}

/** Connects the drop zone and the file chooser. */
export function publishing() {
  const [zone, chooser, folder] = [$("drop"), $("files"), $("folder")];
  const over = (isOver) => zone.classList.toggle("over", isOver);
  chooser.addEventListener("change", () => acting(chooser, "publish-line", async () => {
    await publish([...chooser.files].map((file) => ({ path: file.name, file })));
    chooser.value = "";
  }));
  folder.addEventListener("change", () => acting(folder, "publish-line", async () => {
    await publish([...folder.files].map((file) => ({ path: file.webkitRelativePath, file })));
    folder.value = "";
  }));
  addEventListener("dragover", (event) => {
    event.preventDefault(); // a file that misses the zone must not replace the page
    over(zone.contains(event.target));
  });
  addEventListener("drop", (event) => {
    event.preventDefault();
    over(false);
    if (!zone.contains(event.target)) return;
    const items = [...event.dataTransfer.items].filter((item) => item.kind === "file");
    const entries = items.map((item) => item.webkitGetAsEntry?.()); // gone once this event has been handled
    const plain = [...event.dataTransfer.files];
    acting(chooser, "publish-line", async () => {
      const found = [];
      if (entries.length && entries.every(Boolean)) for (const entry of entries) await below(entry, found);
      else found.push(...plain.map((file) => ({ path: file.name, file })));
      await publish(found);
    });
  });
}
