// One line at the upper edge of the window that says what an action did, and may offer another; a question before one. A failure
// stays until it is closed, or until a node that did not answer does.
import { $, set, untilItAnswers, visible } from "./common.js";

/** How long a line that is no failure stays, in ms. */
const SHOWN_MS = 10000;
let timer = null;

/** What the button of the line does. */
let offered = null;

/** Shows `text`, with a button that says `offer.word` and does `offer.act()`. */
export function tell(text, isBad = false, offer = null) {
  clearTimeout(timer);
  offered = offer;
  $("note-act").hidden = !offer;
  set($("note-act"), offer?.word ?? "");
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
    if (error.name !== "AbortError") {
      tell(error.message, true);
      untilItAnswers(error, () => { if ($("note").textContent === visible(error.message)) tell(""); });
    }
  } finally {
    if (button) button.disabled = false;
    if (hasFocus && document.activeElement === document.body) button.focus();
  }
}

/** Asks the reader whether to go on; `word` is on the button that does. */
export function isConfirmed(title, what, word) {
  return new Promise((give) => {
    const box = $("confirm-box");
    set($("h-confirm"), title);
    set($("confirm-what"), visible(what));
    set($("confirm-go"), word);
    box.returnValue = "";
    box.addEventListener("close", () => give(box.returnValue === "go"), { once: true });
    box.showModal();
  });
}

/** Connects the buttons of the line. */
export function notes() {
  $("note-close").addEventListener("click", () => tell(""));
  $("note-act").addEventListener("click", () => {
    const { act } = offered;
    tell("");
    doing(null, act);
  });
}
