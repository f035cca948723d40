// Tickets of files: the command to copy, and the QR code of a single one.
import { $, ask, plural, query, say, set, visible } from "./common.js";
import { doing } from "./note.js";

/** Names in one request: an address has a limited length. */
const NAMES_AT_ONCE = 50;

/** Shows the tickets of `names`. */
export function showTickets(names, button) {
  return doing(button, async () => {
    const tickets = [];
    for (let first = 0; first < names.length; first += NAMES_AT_ONCE) {
      const answer = await ask(query("api/v1/ticket", { name: names.slice(first, first + NAMES_AT_ONCE) }));
      tickets.push(...answer.tickets.map(({ ticket }) => ticket));
    }
    const isOne = tickets.length === 1;
    set($("h-ticket"), isOne ? `Ticket of ${visible(names[0])}` : `Tickets of ${plural(tickets.length, "file")}`);
    $("ticket").value = tickets.map((ticket) => `nekopeer get ${ticket}`).join("\n");
    $("ticket-code").hidden = !isOne;
    if (isOne) {
      $("ticket-qr").alt = `QR code of the ticket of ${visible(names[0])}`;
      $("ticket-qr").src = query("qr.svg", { ticket: tickets[0] });
    }
    say("ticket-line", "");
    $("ticket-box").showModal();
    $("ticket").select();
  });
}

/** Connects the dialog. */
export function tickets() {
  $("ticket-close").addEventListener("click", () => $("ticket-box").close());
  $("ticket-copy").addEventListener("click", async () => {
    $("ticket").select();
    try {
      await navigator.clipboard.writeText($("ticket").value); // absent where the page came over plain HTTP
      say("ticket-line", "copied");
    } catch {
      say("ticket-line", document.execCommand("copy") ? "copied" : "selected: copy it with Ctrl-C");
    }
  });
}
