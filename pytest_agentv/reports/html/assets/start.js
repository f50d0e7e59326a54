// Keys, the address, and the start.

const keys = { on: true };

async function followAddress() {
  const wanted = new URLSearchParams(location.hash.slice(1)), key = wanted.get("case");
  if (key !== null) return openCase(key);
  if (current.row) leaveCase();
  if (location.hash === "#cases") return search ? undefined : applyFilters();
  for (const name of Object.keys(filters)) filters[name] = wanted.get(name) || "";
  showFilters();
  await applyFilters();
  if (query()) byId("cases").scrollIntoView();
}

const ACTIONS = {
  j: () => step(1),
  k: () => step(-1),
  f: stepToTrouble,
  o: () => { if (list.at >= 0) location.hash = caseLink(list.view[list.at].key); },
  "/": () => {
    if (current.row && innerWidth <= 1000) closeCase();
    byId("f-q").focus();
    byId("f-q").select();
  },
  "?": () => byId("help").showModal(),
};

function onKey(event) {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const typing = /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName);
  if (event.key === "Escape") {
    if (typing) event.target.blur();
    else if (current.row && !byId("help").open) closeCase();
  } else if (!typing && keys.on && !byId("help").open && ACTIONS[event.key]) {
    event.preventDefault();
    ACTIONS[event.key]();
  }
}

function fillChoices() {
  const { files, tags, targets, evaluators, reasons } = data.index;
  for (const [name, values] of Object.entries({ file: files, tag: tags, target: targets, evaluator: evaluators, reason: reasons })) {
    byId("f-" + name)?.append(...values.map((value) => {
      const option = make("option", {}, value);
      option.value = value;
      return option;
    }));
  }
  for (const name of ["file", "tag", "target", "evaluator", "reason", "change", "sort"]) {
    byId("f-" + name)?.addEventListener("change", (event) => { filters[name] = event.target.value; applyFilters(); });
  }
}

function listen() {
  let timer = 0, frame = 0;
  byId("f-q").addEventListener("input", (event) => {
    filters.q = event.target.value;
    clearTimeout(timer);
    timer = setTimeout(applyFilters, 90);
  });
  for (const each of document.querySelectorAll("[data-outcome]")) {
    each.addEventListener("click", () => { filters.outcome = each.dataset.outcome; applyFilters(); });
  }
  byId("clear").addEventListener("click", () => { clearFilters(); applyFilters(); });
  byId("keys").addEventListener("click", () => byId("help").showModal());
  byId("keys-on").addEventListener("change", (event) => { keys.on = event.target.checked; });
  byId("theme").addEventListener("click", () => {
    const root = document.documentElement;
    const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme:dark)").matches;
    root.dataset.theme = dark ? "light" : "dark";
  });
  addEventListener("scroll", () => { frame ||= requestAnimationFrame(() => { frame = 0; draw(); }); }, { passive: true });
  addEventListener("resize", () => { measureBar(); draw(); });
  addEventListener("hashchange", followAddress);
  addEventListener("keydown", onKey);
  addEventListener("beforeprint", drawForPrint);
  addEventListener("afterprint", redraw);
}

async function start() {
  byId("title").dataset.text = document.title;
  await readRows();
  fillChoices();
  listen();
  for (const id of ["bar", "keys", "theme"]) byId(id).hidden = false;
  await followAddress();
  document.documentElement.dataset.ready = Math.round(performance.now());
}

start().catch((error) => {
  byId("bar").hidden = false;
  byId("count").textContent = "The list of cases could not be opened (" + error.message + "). What stands above is complete; the list needs a browser of 2023 or later.";
});
