// The files of this peer: one page of them, filtered, sorted and counted by folder by the peer, and a selection to act on.
import { $, ask, bytes, cell, count, el, fill, named, now, plural, query, set, visible } from "./common.js";
import { showDetails } from "./details.js";
import { opener } from "./media.js";
import { doing, isConfirmed, tell } from "./note.js";
import { showTickets } from "./tickets.js";
import { change } from "./token.js";
import { download, getAll } from "./transfers.js";

/** Files of one page. */
const FILES_OF_PAGE = 25;
/** Folders that are listed; a filter finds the others. */
const FOLDERS_SHOWN = 200;
/** Names in one request: an address has a limited length. */
const NAMES_AT_ONCE = 50;
/** Files in one answer where all are asked for. */
const LISTED_MAX = 10000;
/** Time between the last key in the filter and the request, in ms. */
const TYPING_MS = 200;

/** The files of the page, by name. */
const page = new Map();
/** The files selected, on this page and others, by name. */
const selected = new Map();
/** What is shown. `pages` has the last file of each page before this one. */
const view = { folder: "", pages: [], next: null, request: null };
let onLoad = () => {};

const short = (name) => (view.folder && name.startsWith(`${view.folder}/`) ? name.slice(view.folder.length + 1) : name);
const isStale = (file) => !file.own && (file.newest ?? 0) > file.version;
/** Whether the file of a copy is not what came. */
const isDamaged = (file) => !file.own && ["changed", "missing"].includes(file.freshness);
const needsGet = (file) => isStale(file) || isDamaged(file);

// Rows -------------------------------------------------------------------------------------------------------------

function fileRow({ name }) {
  const pick = el("input", { type: "checkbox", "aria-label": `Select ${visible(name)}`, onchange: () => select(name, pick.checked) });
  const [size, version, role] = [cell(null, { class: "number" }), cell(null, { class: "number" }), cell(null)];
  const pill = el("span", { class: "pill" });
  const button = (word, onclick) => {
    const one = el("button", { type: "button", class: "small", onclick: () => onclick(one) }, el("span", {}, word),
      el("span", { class: "sr" }, ` ${visible(name)}`));
    return one;
  };
  const ticket = button("Ticket", (one) => showTickets([name], one));
  const more = button("Details", (one) => showDetails(name, one));
  const update = button("Update", (one) => download(page.get(name), one));
  const opened = opener(name);
  const shownName = named(short(name));
  shownName.title = visible(name);
  const line = el("tr", { role: "row" }, cell(null, { class: "pick" }, pick), el("th", { scope: "row" }, shownName), size, version, role,
    cell(null, {}, pill), cell(null, { class: "acts" }, update, opened, ticket, more));
  line.update = (file) => {
    const latest = file.newest ?? file.version;
    const text = latest > file.version ? `v${file.version}, newest v${latest}` : `v${file.version}`;
    if (version.textContent && version.textContent !== text) line.classList.add("new");
    set(version, text);
    set(size, bytes(file.size));
    set(role, `${file.own ? "shared" : "copy"}${file.set ? ", set" : ""}`);
    opened.hidden = file.set;
    set(pill, file.freshness);
    pill.dataset.state = file.freshness;
    update.hidden = !needsGet(file);
    set(update.firstChild, isDamaged(file) ? "Get again" : "Update");
  };
  return line;
}

function folderRow({ name }) {
  const open = el("button", { type: "button", class: "link", onclick: () => enter(name) }, named(`${short(name)}/`));
  const pick = el("input", { type: "checkbox", "aria-label": `Select all below ${visible(name)}`,
    onchange: () => doing(pick, () => selectBelow(name, pick.checked)).then(showSelection) });
  const [size, files, state] = [cell(null, { class: "number" }), cell(null, { class: "folder-files" }), cell(null)];
  files.setAttribute("colspan", "2");
  const line = el("tr", { role: "row", class: "folder" }, cell(null, { class: "pick" }, pick), el("th", { scope: "row" }, open), size, files,
    state, cell(null, { class: "acts" }));
  line.update = (folder) => {
    line.files = folder.files;
    set(size, bytes(folder.bytes));
    set(files, plural(folder.files, "file"));
    set(state, folder.stale ? `${count(folder.stale)} stale` : "");
  };
  return line;
}

// Where one stands -------------------------------------------------------------------------------------------------

function showCrumbs() {
  const parts = view.folder ? view.folder.split("/") : [];
  const step = (text, folder) => el("button", { type: "button", class: "link", onclick: () => enter(folder) }, named(text));
  const steps = parts.flatMap((part, depth) => [" / ", depth === parts.length - 1
    ? el("span", { "aria-current": "location" }, named(part)) : step(part, parts.slice(0, depth + 1).join("/"))]);
  $("crumbs").hidden = parts.length === 0;
  $("crumbs").replaceChildren(step("all files", ""), ...steps);
}

function enter(folder) {
  view.folder = folder;
  $("under").value = folder;
  first();
}

/** Loads the first page of a new view. */
function first() {
  view.pages = [];
  return loadFiles().catch((error) => tell(error.message, true));
}

/** Keeps what is shown in the address, so that a reload, a bookmark and a link show it again. */
function keepInAddress() {
  const shown = { folder: view.folder, q: $("filter").value.trim(), sort: $("sort").value, after: view.pages.at(-1) };
  if (shown.sort === "name") delete shown.sort;
  history.replaceState({ pages: view.pages }, "", query(location.pathname, shown) + location.hash);
}

function takeFromAddress() {
  const shown = new URLSearchParams(location.search);
  view.folder = shown.get("folder") ?? "";
  $("under").value = view.folder;
  $("filter").value = shown.get("q") ?? "";
  if (shown.has("sort")) $("sort").value = shown.get("sort");
  if ($("sort").selectedIndex < 0) $("sort").value = "name";
  view.pages = history.state?.pages ?? (shown.has("after") ? [shown.get("after")] : []);
}

// Loading ----------------------------------------------------------------------------------------------------------

function showPages(shown, total) {
  const before = view.pages.length * FILES_OF_PAGE;
  $("pages").hidden = !view.next && view.pages.length === 0;
  $("previous").disabled = view.pages.length === 0;
  $("next").disabled = !view.next;
  set($("pages-line"), `${count(before + 1)} to ${count(before + shown)} of ${plural(total, "file")}`);
}

/** Asks for the page that is shown. An answer that another request overtook is dropped. */
export async function loadFiles() {
  const byFolder = $("by-folder").checked;
  const q = $("filter").value.trim();
  const request = {};
  view.request = request;
  const where = byFolder || view.folder ? `&folder=${encodeURIComponent(view.folder)}` : "";
  const path = query("api/v1/catalogue", { limit: FILES_OF_PAGE, sort: $("sort").value, q, after: view.pages.at(-1) });
  const answer = await ask(path + where);
  if (view.request !== request) return;
  if (answer.files.length === 0 && view.pages.length > 0) {
    view.pages.pop(); // the last page became empty
    return loadFiles();
  }
  const folders = view.pages.length === 0 ? answer.folders ?? [] : [];
  page.clear();
  for (const file of answer.files) {
    page.set(file.name, file);
    if (selected.has(file.name)) selected.set(file.name, file);
  }
  view.next = answer.next;
  const { files: total, bytes: size, stale } = answer.selected;
  const inFolders = folders.reduce((sum, folder) => sum + folder.files, 0);
  set($("catalogue-line"), `${plural(total, q ? "matching file" : "file")}, ${bytes(size)}${stale ? `, ${count(stale)} stale` : ""}`);
  const rows = [...folders.slice(0, FOLDERS_SHOWN).map((folder) => ({ folder, key: `${folder.name}/` })),
    ...answer.files.map((file) => ({ file, key: file.name }))];
  fill($("catalogue"), rows, ({ key }) => `${view.folder}\n${key}`, ({ folder, file }) => {
    const line = folder ? folderRow(folder) : fileRow(file);
    const update = line.update;
    line.update = (item) => update(item.folder ?? item.file);
    return line;
  });
  $("catalogue-table").hidden = rows.length === 0;
  $("tools").hidden = total === 0 && !q && !view.folder;
  $("catalogue-none").hidden = rows.length > 0;
  set($("catalogue-none"), q ? `No name has ${visible(q)}.` : view.folder ? "This folder is empty now."
    : "This peer shares no file and holds no copy yet. Share a file above, or search the network for one.");
  showPages(answer.files.length, total - inFolders);
  $("select-all").hidden = total <= answer.files.length;
  set($("select-all"), `select all ${count(total)}`);
  if (folders.length > FOLDERS_SHOWN) tell(`${count(folders.length - FOLDERS_SHOWN)} folders are not listed: filter by a word`);
  if (answer.damaged?.length) tell(`The catalogue has entries that cannot be read: ${answer.damaged.join("; ")}`, true);
  showCrumbs();
  showSelection();
  keepInAddress();
  onLoad(page);
}

/** What this peer has under `name`, or null. */
export async function fileHere(name) {
  const { files } = await ask(query("api/v1/catalogue", { q: name, limit: 1000 }));
  return files.find((file) => file.name === name) ?? null;
}

/** Whether a copy of the page has passed the time until which it counts as fresh. */
export const isAnyOver = () => [...page.values()].some((file) => file.freshness === "fresh" && file.fresh_until_ms < now());

// Selection --------------------------------------------------------------------------------------------------------

function select(name, isOn) {
  if (isOn) selected.set(name, page.get(name));
  else selected.delete(name);
  showSelection();
}

/** Selects all files that are shown, on other pages and in folders too, or only those below `folder`; or none of these. */
async function selectBelow(folder, isOn) {
  const below = folder && `${folder}/`;
  if (!isOn) {
    for (const name of selected.keys()) if (name.startsWith(below)) selected.delete(name);
    return;
  }
  const q = `${$("filter").value} ${below}`.trim(); // with words, files in deeper folders are listed
  let after = null;
  do {
    const answer = await ask(query("api/v1/catalogue", { limit: LISTED_MAX, folder, q, after }));
    for (const file of answer.files) selected.set(file.name, file);
    after = answer.next;
  } while (after);
}

/** Shows which files and folders of the page are selected. */
function showPicks() {
  const names = [...selected.keys()];
  for (const line of $("catalogue").children) {
    const [pick, name] = [line.querySelector(".pick input"), line.key.split("\n")[1]];
    const chosen = line.files ? names.filter((one) => one.startsWith(name)).length : Number(selected.has(name));
    pick.checked = chosen > 0 && chosen >= (line.files ?? 1);
    pick.indeterminate = chosen > 0 && !pick.checked;
  }
}

function showSelection() {
  const files = [...selected.values()];
  const stale = files.filter(needsGet).length;
  $("selection").hidden = files.length === 0;
  set($("selection-line"), `${plural(files.length, "file")} selected, ${bytes(files.reduce((sum, file) => sum + file.size, 0))}`);
  set($("update-selected"), `Update ${count(stale)} stale`);
  $("update-selected").hidden = stale === 0;
  $("follow-selected").hidden = files.every((file) => file.own);
  const onPage = [...page.keys()].filter((name) => selected.has(name)).length;
  $("select-page").disabled = page.size === 0;
  $("select-page").checked = onPage > 0 && onPage === page.size;
  $("select-page").indeterminate = onPage > 0 && onPage < page.size;
  showPicks();
}

function clear() {
  selected.clear();
  showSelection();
}

/** Gets those of the selection that `isWanted`. */
async function getSelected(isWanted, options) {
  await getAll([...selected.values()].filter(isWanted), options);
  clear();
}

function askUnshare(files) {
  const own = files.filter((file) => file.own).length;
  const copies = files.length - own;
  const what = [own ? `${plural(own, "file")} of this peer: every peer with a copy is told.` : "",
    copies ? `${plural(copies, "copy", "copies")} of files of other peers: they are no longer updated.` : "",
    "Other peers cannot get them from here afterwards. The files stay on the disk."];
  return isConfirmed("Unshare", what.filter(Boolean).join(" "), "Unshare");
}

async function unshareSelected() {
  const files = [...selected.values()];
  if (!(await askUnshare(files))) return;
  const [names, failed] = [files.map((file) => file.name), []];
  for (let start = 0; start < names.length; start += NAMES_AT_ONCE) {
    const answer = await change("DELETE", query("api/v1/files", { name: names.slice(start, start + NAMES_AT_ONCE) }));
    failed.push(...(answer.failed ?? []));
    answer.unshared.forEach((name) => selected.delete(name));
    showSelection();
  }
  if (failed.length) tell(`not unshared: ${failed.map(({ name, error }) => `${name}: ${error}`).join("; ")}`, true);
  else tell(`unshared ${names.length === 1 ? names[0] : plural(names.length, "file")}`);
  await loadFiles();
}

/** Connects the filter, the order, the pages and the selection. `loaded(page)` is called with the files of each page. */
export function browsing(loaded) {
  onLoad = loaded;
  takeFromAddress();
  let typing = null;
  $("filter").addEventListener("input", () => {
    clearTimeout(typing);
    typing = setTimeout(first, TYPING_MS);
  });
  $("sort").addEventListener("change", first);
  $("by-folder").addEventListener("change", () => {
    if ($("by-folder").checked) first();
    else enter("");
  });
  $("previous").addEventListener("click", () => doing($("previous"), async () => {
    view.pages.pop();
    await loadFiles();
  }).then(() => { $("previous").disabled = view.pages.length === 0; }));
  $("next").addEventListener("click", () => doing($("next"), async () => {
    view.pages.push(view.next);
    await loadFiles();
  }).then(() => { $("next").disabled = !view.next; }));
  $("select-page").addEventListener("change", () => {
    for (const [name, file] of page) {
      if ($("select-page").checked) selected.set(name, file);
      else selected.delete(name);
    }
    showSelection();
  });
  $("clear-selected").addEventListener("click", clear);
  $("tickets-selected").addEventListener("click", () => showTickets([...selected.keys()], $("tickets-selected")));
  $("unshare-selected").addEventListener("click", () => doing($("unshare-selected"), unshareSelected));
  const acts = (id, action) => $(id).addEventListener("click", () => doing($(id), action).then(showSelection));
  acts("select-all", () => selectBelow(view.folder, true));
  acts("update-selected", () => getSelected(needsGet));
  acts("follow-selected", () => getSelected((file) => !file.own, { on_stale: "refetch" }));
}
