// Opens a file: audio and video in a player of this page, everything else in a new tab, which may show or save it.
import { $, el, say, set, visible } from "./common.js";

const AUDIO = ["aac", "flac", "m4a", "mp3", "oga", "ogg", "opus", "wav"];
const VIDEO = ["m4v", "mkv", "mov", "mp4", "ogv", "webm"];

const place = (name) => `f/${name.split("/").map(encodeURIComponent).join("/")}`;

function kindOf(name) {
  const end = name.split(".").pop().toLowerCase();
  return AUDIO.includes(end) ? "audio" : VIDEO.includes(end) ? "video" : null;
}

function play(name, kind) {
  const player = el(kind, { controls: true, autoplay: true, src: place(name), "aria-label": visible(name) });
  player.addEventListener("error", () => say("player-line", "The browser cannot play this file, or nobody delivers it now.", true));
  set($("h-player"), visible(name));
  say("player-line", "");
  $("player").replaceChildren(player);
  $("player-box").showModal();
}

/** The button or link that opens `name`. */
export function opener(name) {
  const kind = kindOf(name);
  const about = el("span", { class: "sr" }, ` ${visible(name)}${kind ? "" : " in a new tab"}`);
  return kind
    ? el("button", { type: "button", class: "small", onclick: () => play(name, kind) }, "Play", about)
    : el("a", { class: "button-like", href: place(name), target: "_blank", rel: "noopener noreferrer" }, "Open", about);
}

/** Connects the player's dialog. Closing it ends the request for the file. */
export function media() {
  $("player-close").addEventListener("click", () => $("player-box").close());
  $("player-box").addEventListener("close", () => {
    const player = $("player").firstElementChild;
    player?.pause();
    player?.removeAttribute("src");
    player?.load();
    $("player").replaceChildren();
  });
}
