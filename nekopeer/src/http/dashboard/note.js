// One line at the upper edge of the window that says what an action did. A failure stays until it is closed.
import { $, set, visible } from "./common.js";

/** How long a line that is no failure stays, in ms. */
const SHOWN_MS = 10000;
let timer = null;

/** Shows `text`. */
export function tell(text, isBad = false) {
  clearTimeout(timer);
  $("note-box").hidden = !text;
  $("note").classList.toggle("bad", isBad);
  set($("note"), visible(text));
  if (text && !isBad) timer = setTimeout(() => tell(""), SHOWN_MS);
}

/** Runs what a button asks for and says why it failed. The button is disabled meanwhile, and has the focus again then. */
export async function doing(button, action) {
  const hasFocus = button && document.activeElement === button;
  if (button) button.disabled = true;
  try {
    await action();
  } catch (error) {
    if (error.name !== "AbortError") tell(error.message, true);
  } finally {
    if (button) button.disabled = false;
    if (hasFocus && document.activeElement === document.body) button.focus();
  }
}

/** Connects the button that closes the line. */
export const notes = () => $("note-close").addEventListener("click", () => tell(""));
