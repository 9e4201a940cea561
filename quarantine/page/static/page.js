// Keeps an open page up to date. Without it everything works by loading again.
"use strict";
(() => {
  const main = document.querySelector("main[data-live]");
  const fresh = document.getElementById("fresh");
  const SLOWEST = 120;
  const ROWS_A_FRAME = 25;

  // The command that does the same, with what is typed.
  const quoted = (words) => "'" + words.replaceAll("'", "'\\''") + "'";
  for (const area of document.querySelectorAll("textarea[data-command]")) {
    const code = document.getElementById("command-" + area.dataset.command);
    const said = (one) => {
      if (one.dataset.flag) return one.checked ? " " + one.dataset.flag : "";
      if (one.dataset.option === undefined) return "";
      if (!one.value) return one.dataset.empty ? " " + one.dataset.empty : "";
      const option = one.dataset.option ? one.dataset.option + " " : "";
      return " " + option + quoted(one.value + (one.dataset.end || ""));
    };
    const write = () => {
      const more = [...area.form.elements].map(said).join("");
      code.textContent = code.dataset.start + " " + quoted(area.value || "…") + more;
    };
    area.form.addEventListener("input", write);
    write();
  }
  const alert = document.getElementById("alert");
  if (alert) alert.focus();
  if (!main) return;

  const every = Number(main.dataset.every);
  const where = new URL(main.dataset.live, location.href);
  where.searchParams.set("part", "live");
  let wait = every, tag = "", timer = 0, busy = false, well = new Date();

  const clock = (at) => at.toLocaleTimeString([], { hour12: false });
  const say = (words) => { if (fresh.textContent !== words) fresh.textContent = words; };

  const nextFrame = () => new Promise((done) => requestAnimationFrame(done));

  // Whoever stands in what is replaced stands in the same place afterwards.
  const replace = (old, html, v) => {
    const focused = old.contains(document.activeElement) ? document.activeElement : null;
    const open = [...old.querySelectorAll("details")].map((one) => one.open);
    old.innerHTML = html;
    old.dataset.v = v;
    [...old.querySelectorAll("details")].forEach((one, at) => { one.open = open[at] || one.open; });
    if (!focused) return;
    const href = focused.getAttribute("href");
    const same = href && [...old.querySelectorAll("a")].find((one) => one.getAttribute("href") === href);
    if (same) same.focus({ preventScroll: true });
  };

  const apply = async (found) => {
    const pieces = new Map(found.pieces.map(([id, v, html]) => [id, [v, html]]));
    for (const [name, ids] of Object.entries(found.lists)) {
      const body = main.querySelector(`[data-list="${name}"]`);
      if (!body) continue;
      const keep = new Set(ids);
      for (const row of [...body.children]) if (!keep.has(row.id)) row.remove();
      let at = body.firstElementChild, moved = 0;
      for (const id of ids) {
        let row = document.getElementById(id);
        if (!row) {
          row = document.createElement("tr");
          row.id = id;
          row.setAttribute("role", "row");
        }
        if (row === at) at = at.nextElementSibling;
        else {
          body.insertBefore(row, at);
          if (++moved % ROWS_A_FRAME === 0) await nextFrame();
        }
      }
    }
    let changed = 0;
    for (const [id, [v, html]] of pieces) {
      const old = document.getElementById(id);
      if (!old || old.dataset.v === v) continue;
      replace(old, html, v);
      if (old.tagName === "TR") {
        old.classList.remove("changed");
        requestAnimationFrame(() => old.classList.add("changed"));
      }
      if (++changed % ROWS_A_FRAME === 0) await nextFrame();
    }
    const moved = document.getElementById("moved");
    if (moved && found.version && found.version !== main.dataset.version) moved.hidden = false;
  };

  const look = async () => {
    if (busy || document.hidden) return;
    busy = true;
    try {
      const headers = tag ? { "If-None-Match": tag } : {};
      const answer = await fetch(where, { headers, credentials: "same-origin", cache: "no-store" });
      if (answer.status === 401 || answer.status === 403) {
        say("This page is not kept up to date any more: log in, then load it again.");
        wait = 0;
        return;
      }
      if (answer.status !== 304) {
        if (!answer.ok) throw new Error(String(answer.status));
        await apply(await answer.json());
        tag = answer.headers.get("ETag") || "";
      }
      const late = wait > every;
      wait = every;
      well = new Date();
      if (late) say("Up to date again.");
      else if (fresh.textContent) say("");
    } catch {
      wait = Math.min(wait * 2, SLOWEST);
      say(`As it was at ${clock(well)}: no answer since. Asked again in ${wait} s.`);
    } finally {
      busy = false;
      if (wait) timer = setTimeout(look, wait * 1000);
    }
  };

  document.addEventListener("visibilitychange", () => {
    if (document.hidden || !wait) return;
    clearTimeout(timer);
    look();
  });
  timer = setTimeout(look, every * 1000);
})();
