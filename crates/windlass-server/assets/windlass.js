// windlass: every page works without this script. It adds live updates, keyboard shortcuts and confirmations.
// It has no data of its own: to update, it fetches the page again and merges it into the one on screen.
(() => {
  "use strict";
  const $ = (selector, root = document) => root.querySelector(selector);
  const $$ = (selector, root = document) => [...root.querySelectorAll(selector)];
  const root = document.documentElement;
  root.dataset.script = "";

  // Times: relative, in the reader's time zone on hover, updated with the server's clock.
  const skew = () => Number($("meta[name=windlass-now]")?.content || Date.now()) - loadedAt;
  const loadedAt = Date.now();
  let offset = skew();
  // As the server writes them: 2026-11-15 23:04:05 and the zone.
  const digits = "2-digit";
  const exact = new Intl.DateTimeFormat("sv-SE", {
    year: "numeric", month: digits, day: digits, hour: digits, minute: digits, second: digits, timeZoneName: "short",
  });
  function span(seconds) {
    if (seconds < 1) return `${Math.max(0, Math.round(seconds * 1000))} ms`;
    if (seconds < 10) return `${seconds.toFixed(1)} s`;
    if (seconds < 60) return `${Math.floor(seconds)} s`;
    const units = [[86400, "d", 3600, "h"], [3600, "h", 60, "min"], [60, "min", 1, "s"]];
    for (const [size, name, less, lesser] of units) {
      if (seconds < size) continue;
      const whole = Math.floor(seconds / size);
      const rest = Math.floor((seconds % size) / less);
      return rest && whole < 10 ? `${whole} ${name} ${rest} ${lesser}` : `${whole} ${name}`;
    }
  }
  // Past times are shown in one unit, as the server does.
  function coarse(seconds) {
    const whole = [86400, 3600, 60, 1].find((size) => seconds >= size) ?? 1;
    return span(Math.floor(seconds / whole) * whole);
  }
  function tellTimes(scope = document) {
    const now = Date.now() + offset;
    for (const element of $$("time[data-as]", scope)) {
      const at = Date.parse(element.dateTime);
      if (Number.isNaN(at)) continue;
      const seconds = (now - at) / 1000;
      const as = element.dataset.as;
      let text;
      if (as === "age") text = span(Math.max(0, seconds));
      else if (Math.abs(seconds) < 1) text = "now";
      else text = seconds > 0 ? `${coarse(seconds)} ago` : `in ${span(-seconds < 10 ? Math.ceil(-seconds) : -seconds)}`;
      text = text.replace(".0 s", " s");
      if (element.textContent !== text) element.textContent = text;
      const title = exact.format(at);
      if (element.title !== title) element.title = title;
    }
  }
  setInterval(tellTimes, 1000);

  // Merges a fetched page into this one: elements with an id are kept, and what the reader is editing is not changed.
  function morph(old, fresh) {
    if (old.nodeType !== fresh.nodeType || old.nodeName !== fresh.nodeName) return old.replaceWith(fresh);
    if (old.nodeType !== Node.ELEMENT_NODE) {
      if (old.nodeValue !== fresh.nodeValue) old.nodeValue = fresh.nodeValue;
      return;
    }
    if ("keep" in old.dataset || old === document.activeElement && old.matches("input, select, textarea")) return;
    if (old.dataset.state !== fresh.dataset.state && old.nodeName === "TR") {
      old.classList.remove("changed");
      requestAnimationFrame(() => old.classList.add("changed"));
    }
    for (const { name, value } of [...fresh.attributes]) {
      if (name === "class" && old.nodeName === "TR") continue;
      if (old.getAttribute(name) !== value) old.setAttribute(name, value);
    }
    for (const { name } of [...old.attributes]) {
      const own = ["open", "title", "tabindex", "class"].includes(name) || (name === "hidden" && "own" in old.dataset);
      if (!own && !fresh.hasAttribute(name)) old.removeAttribute(name);
    }
    if (old.matches("input, textarea, select")) return;
    const known = new Map([...old.children].filter((child) => child.id).map((child) => [child.id, child]));
    // Removed elements go first: a row that stays is then not moved, which would take the focus from it.
    const stays = new Set([...fresh.children].map((child) => child.id));
    for (const [id, child] of known) if (!stays.has(id) && !("keep" in child.dataset)) child.remove();
    let at = old.firstChild;
    for (const child of [...fresh.childNodes]) {
      const same = child.id && known.get(child.id);
      if (same) {
        if (same !== at) old.insertBefore(same, at);
        morph(same, child);
        at = same.nextSibling;
      } else if (at && !at.id && !child.id && at.nodeName === child.nodeName) {
        const next = at.nextSibling;
        morph(at, child);
        at = next;
      } else {
        old.insertBefore(child, at);
        if (child.nodeName === "TR") child.classList.add("changed");
      }
    }
    while (at) {
      const next = at.nextSibling;
      if (!(at.dataset && "keep" in at.dataset)) at.remove();
      at = next;
    }
  }

  // While the reader has scrolled down or selected rows, new rows are not shown but counted on a button.
  let waiting = null;
  function hold(fresh) {
    const rows = $("tbody[data-rows]");
    const next = $("tbody[data-rows]", fresh);
    if (!rows || !next || (window.scrollY < 160 && !$("tr.selected"))) return 0;
    const here = new Set([...rows.children].map((row) => row.id));
    const there = new Map([...next.children].map((row) => [row.id, row]));
    const isNew = ([id, row]) => id && !here.has(id) && !row.classList.contains("beneath");
    const added = [...there].filter(isNew).length;
    if (!added) return 0;
    const kept = [...rows.children].map((row) => there.get(row.id) || row.cloneNode(true));
    next.replaceChildren(...kept);
    return added;
  }
  async function refresh(all = false) {
    const response = await fetch(location.href, { headers: { "x-windlass-live": "1" }, credentials: "same-origin" });
    if (response.redirected) return location.reload();
    if (!response.ok) throw new Error(`status ${response.status}`);
    const fresh = new DOMParser().parseFromString(await response.text(), "text/html");
    // Another tab has selected another tenant: this page is loaded again as a whole, or not updated.
    const tenant = (page) => $("input[name=acting_for]", page)?.value;
    if (tenant(document) !== tenant(fresh)) return location.reload();
    const now = $("meta[name=windlass-now]", fresh);
    if (now) offset = Number(now.content) - Date.now();
    const added = all ? 0 : hold(fresh);
    const focused = document.activeElement;
    for (const id of ["sidebar", "live"]) {
      const [old, next] = [document.getElementById(id), fresh.getElementById(id)];
      if (old && next) morph(old, next);
    }
    // An element that changed its place has lost the focus.
    if (focused.isConnected && focused !== document.activeElement) focused.focus({ preventScroll: true });
    const pill = $("#pill");
    if (pill) {
      waiting = added || null;
      pill.hidden = !added;
      if (added) $("button", pill).textContent = `${added} new`;
    }
    document.title = fresh.title;
    wake();
    tellTimes();
  }

  // Live updates: one stream reports changes; the page is then fetched, at most once per `gap`.
  const sign = $("#live-sign");
  const gap = 900;
  let source, due, busy = false, again = false, last = 0, wasLost = false;
  let paused = sessionStorage.getItem("windlass-paused") === "yes";
  function show(state, words) {
    if (!sign) return;
    sign.dataset.state = state;
    $(".word", sign).textContent = words;
    sign.setAttribute("aria-pressed", String(state === "paused"));
  }
  async function pull() {
    clearTimeout(due);
    due = undefined;
    if (busy || paused || document.hidden) return void (again = true);
    busy = true;
    again = false;
    try {
      await refresh();
      last = Date.now();
    } catch {
      // The stream reports a lost connection; the next change fetches again.
    }
    busy = false;
    if (again) soon();
  }
  const soon = () => { due ??= setTimeout(pull, Math.max(0, gap - (Date.now() - last))); };
  function listen() {
    source?.close();
    const address = root.dataset.live;
    if (!address) return show("off", "");
    if (paused) return show("paused", "Paused");
    show(wasLost ? "lost" : "live", wasLost ? "Connecting" : "Live");
    source = new EventSource(address);
    source.onopen = () => {
      show("live", "Live");
      if (wasLost) {
        tell("Reconnected. This page is up to date.");
        soon();
      }
      wasLost = false;
      $("#lost").hidden = true;
    };
    source.addEventListener("change", soon);
    source.addEventListener("revoked", () => { source.close(); location.reload(); });
    source.addEventListener("bye", () => { source.close(); setTimeout(listen, 1000); });
    source.onerror = () => {
      if (!wasLost) say("Connection lost");
      wasLost = true;
      show("lost", "Connection lost");
      $("#lost").hidden = false;
      if (source.readyState === EventSource.CLOSED) setTimeout(listen, 2000);
    };
  }
  sign?.addEventListener("click", () => {
    paused = !paused;
    sessionStorage.setItem("windlass-paused", paused ? "yes" : "no");
    say(paused ? "Live updates paused" : "Live updates resumed");
    listen();
    if (!paused) soon();
  });
  document.addEventListener("visibilitychange", () => { if (!document.hidden && again) soon(); });
  $("#pill button")?.addEventListener("click", () => { window.scrollTo({ top: 0 }); refresh(true); });

  // Toasts and screen-reader announcements.
  const say = (words) => { const announcer = $("#announcer"); if (announcer) announcer.textContent = words; };
  function tell(words, role = "succeeded") {
    const toast = document.createElement("div");
    toast.className = `toast is-${role}`;
    const text = document.createElement("span");
    text.textContent = words;
    const close = document.createElement("button");
    close.className = "quiet small";
    close.textContent = "Dismiss";
    close.onclick = () => toast.remove();
    toast.append(text, close);
    $("#toasts").append(toast);
    setTimeout(() => toast.remove(), 8000);
  }

  // Copying: a button's own value, or the text of what it names.
  async function copy(button) {
    let text = button.dataset.copy || document.getElementById(button.dataset.copyFrom)?.textContent || "";
    try {
      if (button.dataset.copyUrl) text = await (await fetch(button.dataset.copyUrl, { credentials: "same-origin" })).text();
      await navigator.clipboard.writeText(text);
    } catch {
      const area = document.createElement("textarea");
      area.value = text;
      document.body.append(area);
      area.select();
      document.execCommand("copy");
      area.remove();
    }
    say("Copied");
    button.dataset.was ??= button.textContent;
    button.textContent = "Copied";
    setTimeout(() => { button.textContent = button.dataset.was; }, 1200);
  }

  // Selecting rows, and the bar that says what can be done with them.
  let lastTick = null;
  function picked() {
    const form = $("#pick");
    const bar = $("#picked");
    if (!form || !bar) return;
    const ticks = $$("td.tick input");
    const chosen = ticks.filter((tick) => tick.checked);
    for (const tick of ticks) tick.closest("tr").classList.toggle("selected", tick.checked);
    const every = $("#pick-every");
    const all = every?.checked;
    bar.hidden = !chosen.length && !all;
    $("#jobs-table")?.classList.toggle("picking", chosen.length > 0);
    const count = all ? Number(every.dataset.count) : chosen.length;
    const about = all && every.dataset.more ? `${count}+` : String(count);
    $("#picked-count").textContent = count === 1 ? "1 job" : `${about} jobs`;
    for (const button of $$("button[data-verb]", bar)) {
      const verb = button.dataset.verb;
      button.textContent = `${verb} ${count === 1 ? "1 job" : `${about} jobs`}`;
      button.dataset.confirm = `${verb} ${count === 1 ? "1 job" : `${about} jobs`}?`;
      // An action that applies to none of the selected jobs is disabled.
      const act = button.dataset.for;
      const fits = (tick) => $(`button[name=${act}]`, tick.closest("tr"));
      button.hidden = Boolean(act) && !all && !chosen.some(fits);
    }
    const head = $("th.tick input");
    if (head) head.checked = chosen.length > 0 && chosen.length === ticks.length;
  }
  document.addEventListener("click", (event) => {
    const tick = event.target.closest("td.tick input");
    if (!tick) return;
    if (event.shiftKey && lastTick) {
      const ticks = $$("td.tick input");
      const [a, b] = [ticks.indexOf(lastTick), ticks.indexOf(tick)].sort((x, y) => x - y);
      ticks.slice(a, b + 1).forEach((each) => { each.checked = tick.checked; });
    }
    lastTick = tick;
    picked();
  });
  document.addEventListener("change", (event) => {
    if (event.target.matches("th.tick input")) {
      $$("td.tick input").forEach((tick) => { tick.checked = event.target.checked; });
      picked();
    }
    if (event.target.matches("#pick-every")) picked();
    if (event.target.matches("[data-submits]")) event.target.form.requestSubmit();
    if (event.target.matches("[data-column]")) chooseColumns(true);
  });

  // Hidden columns, stored per table.
  function chooseColumns(isChange) {
    for (const table of $$("table[data-columns]")) {
      const name = `windlass-columns-${table.dataset.columns}`;
      const boxes = $$(`[data-column-of="${table.dataset.columns}"]`);
      let off = JSON.parse(localStorage.getItem(name) || "[]");
      if (isChange) {
        off = boxes.filter((box) => !box.checked).map((box) => box.dataset.column);
        localStorage.setItem(name, JSON.stringify(off));
      } else {
        boxes.forEach((box) => { box.checked = !off.includes(box.dataset.column); });
      }
      for (const cell of $$("[data-col]", table)) cell.hidden = off.includes(cell.dataset.col);
    }
  }

  // Confirmation dialogs, which name what will change.
  document.addEventListener("click", (event) => {
    const button = event.target.closest("button, a");
    if (!button) return;
    if (button.dataset.copy || button.dataset.copyFrom || button.dataset.copyUrl) { event.preventDefault(); return copy(button); }
    if (button.dataset.opens) { event.preventDefault(); return document.getElementById(button.dataset.opens).showModal(); }
    if (button.dataset.closes !== undefined) { event.preventDefault(); return button.closest("dialog").close(); }
    if (button.dataset.theme) { event.preventDefault(); return theme(); }
    if (button.dataset.unpick !== undefined) { $$("td.tick input, #pick-every").forEach((tick) => { tick.checked = false; }); return picked(); }
    if (button.dataset.confirm && !button.dataset.sure) {
      event.preventDefault();
      const dialog = $("#confirm");
      $("h2", dialog).textContent = button.dataset.confirm;
      $("p", dialog).textContent = button.dataset.detail || "";
      $("button.no", dialog).textContent = button.dataset.no || "Cancel";
      const yes = $("button.yes", dialog);
      yes.textContent = button.dataset.yes || button.textContent.trim();
      yes.className = `yes ${button.classList.contains("danger") ? "danger" : "main"}`;
      yes.onclick = () => { dialog.close(); button.dataset.sure = "yes"; button.click(); delete button.dataset.sure; };
      dialog.showModal();
    }
  });
  // Loading indicator, shown only after a delay so that fast pages do not flicker.
  addEventListener("beforeunload", () => { setTimeout(() => { root.dataset.loading = ""; }, 150); });
  document.addEventListener("submit", (event) => {
    event.submitter?.setAttribute("aria-busy", "true");
    // A second press during the request would repeat the action.
    setTimeout(() => $$("button:not([type=button])", event.target).forEach((button) => { button.disabled = true; }));
    setTimeout(() => $$("button:disabled", event.target).forEach((button) => { button.disabled = false; }), 4000);
  });
  function theme() {
    const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = dark ? "light" : "dark";
    const secure = location.protocol === "https:" ? "; secure" : "";
    document.cookie = `windlass_theme=${root.dataset.theme}; path=/ui; max-age=31536000; samesite=lax${secure}`;
  }

  // The log of a running job: text nodes only, limited in length, scrolled with while the reader is at the end.
  const tails = new Map();
  function wakeTail(panel) {
    const pre = $("pre", panel);
    const address = panel.dataset.follow;
    const follow = $("[data-act=follow]", panel);
    if (!address || tails.has(panel.id)) return;
    let from = panel.dataset.from || "";
    const stream = new EventSource(from ? `${address}?after=${encodeURIComponent(from)}` : address);
    tails.set(panel.id, stream);
    stream.addEventListener("log", (event) => {
      for (const { stream: name, text } of JSON.parse(event.data)) {
        const line = document.createElement("span");
        if (name === "stderr") line.className = "err";
        line.textContent = text;
        pre.append(line);
      }
      while (pre.childNodes.length > 4000) pre.firstChild.remove();
      if (follow?.getAttribute("aria-pressed") === "true") pre.scrollTop = pre.scrollHeight;
    });
    stream.addEventListener("revoked", () => { stream.close(); });
    stream.addEventListener("end", () => { stream.close(); soon(); });
  }
  document.addEventListener("click", (event) => {
    const button = event.target.closest(".terminal [data-act]");
    if (!button) return;
    const on = button.getAttribute("aria-pressed") !== "true";
    button.setAttribute("aria-pressed", String(on));
    const pre = $("pre", button.closest(".terminal"));
    if (button.dataset.act === "wrap") pre.classList.toggle("wrap", on);
    else if (on) pre.scrollTop = pre.scrollHeight;
  });
  document.addEventListener("input", (event) => {
    if (event.target.matches(".terminal input[type=search]")) find(event.target);
    if (event.target.matches("[data-search-url]")) lookFor(event.target);
    if (event.target.matches("[data-narrows]")) {
      const wanted = event.target.value.toLowerCase();
      for (const item of $$(`#${event.target.dataset.narrows} .item`)) item.hidden = !item.textContent.toLowerCase().includes(wanted);
    }
  });
  // The server searches the tenants, of which there may be ten thousand. Only the last response counts.
  let looks = 0, lookDue;
  function lookFor(input) {
    const list = $("#tenant-list");
    const look = ++looks;
    clearTimeout(lookDue);
    list.setAttribute("aria-busy", "true");
    lookDue = setTimeout(async () => {
      let found;
      try {
        const answer = await fetch(`${input.dataset.searchUrl}?q=${encodeURIComponent(input.value)}`, { credentials: "same-origin" });
        if (!answer.ok) throw new Error(`status ${answer.status}`);
        found = [...new DOMParser().parseFromString(await answer.text(), "text/html").body.childNodes];
      } catch {
        const words = document.createElement("p");
        words.className = "wrong";
        words.textContent = "Search failed. Type again to retry.";
        found = [words];
      }
      if (look !== looks) return;
      list.replaceChildren(...found);
      list.removeAttribute("aria-busy");
      say(`${$$(".item", list).length} tenants`);
    }, 150);
  }
  function find(input) {
    const pre = $("pre", input.closest(".terminal"));
    for (const mark of $$("mark", pre)) mark.replaceWith(mark.textContent);
    pre.normalize();
    const wanted = input.value.toLowerCase();
    if (wanted.length < 2) return;
    const walker = document.createTreeWalker(pre, NodeFilter.SHOW_TEXT);
    const texts = [];
    while (walker.nextNode() && texts.length < 4000) texts.push(walker.currentNode);
    let found = 0;
    for (let text of texts) {
      let at;
      while (found < 500 && (at = text.data.toLowerCase().indexOf(wanted)) >= 0) {
        const hit = text.splitText(at);
        text = hit.splitText(wanted.length);
        const mark = document.createElement("mark");
        hit.replaceWith(mark);
        mark.append(hit);
        if (!found++) mark.scrollIntoView({ block: "nearest" });
      }
    }
    say(`${found} found`);
  }

  // Keyboard.
  let go = 0;
  const places = { j: "/ui/jobs", t: "/ui/triggers", d: "/ui/dead-letters", q: "/ui/queues", w: "/ui/workers", o: "/ui/overview", m: "/ui/members", n: "/ui/jobs/new" };
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const typing = event.target.matches("input:not([type=checkbox]), select, textarea");
    if (event.key === "Escape") {
      const open = $("details.more[open]");
      if (open) { open.open = false; $("summary", open).focus(); }
      else if (typing) event.target.blur();
      else if ($("tr.selected")) { $$("td.tick input").forEach((tick) => { tick.checked = false; }); picked(); }
      return;
    }
    if (typing || $("dialog[open]")) return;
    if (go && Date.now() - go < 1200 && places[event.key]) {
      if ($(`#sidebar a[href="${places[event.key]}"]`) || event.key === "n") location.href = places[event.key];
      return void (go = 0);
    }
    go = 0;
    if (event.key === "g") go = Date.now();
    else if (event.key === "/") { event.preventDefault(); $("#search")?.focus(); }
    else if (event.key === "?") $("#keys")?.showModal();
    else if (event.key === "p") sign?.click();
    else if (["ArrowDown", "ArrowUp", "Enter", "x", "r", "c"].includes(event.key)) rowKey(event);
  });
  function rowKey(event) {
    const rows = $$("tbody[data-rows] > tr:not(.beneath)");
    if (!rows.length) return;
    const current = document.activeElement.closest?.("tbody[data-rows] > tr");
    if (event.key.startsWith("Arrow")) {
      if (!current && document.activeElement !== document.body) return;
      const step = event.key === "ArrowDown" ? 1 : -1;
      const next = rows[current ? Math.min(rows.length - 1, Math.max(0, rows.indexOf(current) + step)) : 0];
      rows.forEach((row) => row.removeAttribute("tabindex"));
      next.tabIndex = 0;
      next.focus({ preventScroll: true });
      next.scrollIntoView({ block: "nearest" });
      event.preventDefault();
    } else if (current && document.activeElement === current) {
      if (event.key === "Enter") $("a", current)?.click();
      else if (event.key === "x") $("td.tick input", current)?.click();
      else $(`[data-key=${event.key}]`, current)?.click();
      event.preventDefault();
    }
  }
  document.addEventListener("click", (event) => {
    for (const open of $$("details.more[open]")) if (!open.contains(event.target)) open.open = false;
  });
  // The button is at the end of a panel, so scroll all of it into view. The event does not bubble.
  document.addEventListener("toggle", (event) => {
    if (event.target.open && event.target.matches("details.more")) $(".panel", event.target)?.scrollIntoView({ block: "nearest" });
  }, true);

  // A page in the browser's back-forward cache must close its connections: a host has only a few.
  addEventListener("pagehide", () => {
    source?.close();
    for (const stream of tails.values()) stream.close();
    tails.clear();
  });
  addEventListener("pageshow", (event) => {
    delete root.dataset.loading;
    $$("[aria-busy]").forEach((button) => button.removeAttribute("aria-busy"));
    if (event.persisted) { listen(); wake(); soon(); }
  });

  function wake() {
    $$(".terminal[data-follow]").forEach(wakeTail);
    chooseColumns(false);
    picked();
  }
  for (const late of $$(".toast[data-autohide]")) setTimeout(() => late.remove(), 8000);
  tellTimes();
  wake();
  listen();
})();
