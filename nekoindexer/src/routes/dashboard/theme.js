// The choice of colours, set before the page is drawn: the system's, unless the reader chose.
"use strict";
{
  const KEY = "neko.theme";
  const root = document.documentElement;
  const kept = (() => {
    try { return localStorage.getItem(KEY); } catch { return null; } // storage may be forbidden
  })();
  if (kept === "dark" || kept === "light") root.dataset.theme = kept;
  addEventListener("DOMContentLoaded", () => {
    const button = document.getElementById("theme");
    const isDark = () =>
      root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    const show = () => button.setAttribute("aria-pressed", String(isDark()));
    button.addEventListener("click", () => {
      root.dataset.theme = isDark() ? "light" : "dark";
      try { localStorage.setItem(KEY, root.dataset.theme); } catch { /* chosen for this page only */ }
      show();
    });
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", show);
    show();
  });
}
