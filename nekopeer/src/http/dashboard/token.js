// The token that changing requests need: asked for when the first one is made, kept while the tab is open.
import { $, ask, Refused, set, visible } from "./common.js";

const KEY = "neko.token";
/** Where the token is kept if the browser forbids storage. */
let forgotten = null;

const kept = () => {
  try { return sessionStorage.getItem(KEY); } catch { return forgotten; }
};
const keep = (token) => {
  try {
    if (token === null) sessionStorage.removeItem(KEY);
    else sessionStorage.setItem(KEY, token);
  } catch { forgotten = token; }
};

/** Takes the token of `#token=..` and removes it from the address, which is shown, kept and sent to others. */
export function takeFromAddress() {
  const token = new URLSearchParams(location.hash.slice(1)).get("token");
  if (!token) return;
  keep(token.trim());
  history.replaceState(null, "", location.pathname + location.search);
}

/** The dialog's promise, while it is open: several changes may wait for one token. */
let asking = null;

/** Asks for the token; throws an `AbortError` if the reader declines. */
export function askToken(why) {
  asking ??= new Promise((give, decline) => {
    const [box, field] = [$("token-box"), $("token")];
    if (why) set($("token-why"), visible(why));
    field.value = "";
    box.returnValue = "";
    box.addEventListener("close", () => {
      asking = null;
      const token = field.value.trim();
      field.value = "";
      if (box.returnValue !== "use" || !token) return decline(new DOMException("no token", "AbortError"));
      keep(token);
      give(token);
    }, { once: true });
    box.showModal();
    field.focus();
  });
  return asking;
}

/** Runs `request(token)`; asks for another token as long as the node refuses the one it has. */
export async function withToken(request) {
  for (;;) {
    const token = kept() ?? await askToken();
    try {
      return await request(token);
    } catch (error) {
      if (!(error instanceof Refused) || (error.status !== 401 && error.status !== 403)) throw error;
      if (kept() === token) keep(null);
      await askToken(error.message);
    }
  }
}

export const bearer = (token) => ({ authorization: `Bearer ${token}` });

/** A request that changes something; `body` is sent as JSON. */
export function change(method, path, body) {
  const json = body === undefined ? {} : { "content-type": "application/json" };
  return withToken((token) => ask(path, {
    method,
    headers: { ...bearer(token), ...json },
    body: body === undefined ? undefined : JSON.stringify(body),
  }));
}
