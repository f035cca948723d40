// How fast the peer sends and fetches, and whether it fetches: shown in the head of the page, and changed there.
import { $, set } from "./common.js";
import { doing } from "./note.js";
import { change } from "./token.js";
import { pausing } from "./transfers.js";

const MIB = 1024 * 1024;
/** Fields of the limits, by their keys. */
const FIELDS = { limit_up_bytes_per_s: "limit-up", limit_down_bytes_per_s: "limit-down" };
/** What holds. */
let holds = { limit_up_bytes_per_s: null, limit_down_bytes_per_s: null, paused: false };

/** Shows what holds. A field that is being typed into stays as it is. */
export function showThrottle({ limit_up_bytes_per_s, limit_down_bytes_per_s, paused }) {
  holds = { limit_up_bytes_per_s, limit_down_bytes_per_s, paused };
  for (const [key, id] of Object.entries(FIELDS)) {
    const text = holds[key] ? String(Math.max(0.01, Math.round((100 * holds[key]) / MIB) / 100)) : "";
    if (document.activeElement !== $(id)) $(id).value = text;
  }
  set($("pause"), paused ? "Resume downloads" : "Pause downloads");
  pausing(paused);
}

async function throttle(button, wanted) {
  await doing(button, async () => { holds = await change("POST", "api/v1/throttle", wanted); });
  showThrottle(holds); // as before, if it was refused
}

/** Connects the switch and the fields; an empty field is no limit. */
export function throttling() {
  $("pause").addEventListener("click", () => throttle($("pause"), { paused: !holds.paused }));
  for (const [key, id] of Object.entries(FIELDS)) {
    $(id).addEventListener("change", () => {
      if (!$(id).reportValidity()) return;
      $(id).blur(); // after Enter it would not show what holds
      throttle(null, { [key]: Math.ceil(Number($(id).value) * MIB) });
    });
  }
}
