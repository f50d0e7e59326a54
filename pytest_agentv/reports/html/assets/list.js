// The list. Few rows are all in the page, so that the browser's own search finds them; of many only those in sight.

const MOST_DRAWN = 400;
const drawn = { what: "", nodes: new Map(), of: null, height: 44 };

function dots(row) {
  const shown = { p: "●", f: "×", e: "!" };
  const marks = [...row.marks].map((mark) => make("span", { class: mark, "aria-hidden": "true" }, shown[mark]));
  return make("span", { class: "dots" }, marks, unseen(row.passes + " of " + row.marks.length + " answers pass"));
}

function rowNode(row, at) {
  const link = make("a", { class: "row", href: caseLink(row.key), "aria-current": at === list.at ? "true" : null },
    make("span", { class: "tag " + row.status }, SIGN[row.status], make("span", { class: "word" }, " " + WORD[row.status])),
    make("span", { class: "id" }, row.id, make("small", {}, row.file, make("span", { class: "second" }, " · " + row.target))),
    make("span", { class: "why" }, row.why),
    make("span", { class: "target mute small" }, row.target),
    row.marks.length > 1 && row.status !== "scored" ? dots(row) : make("span", { class: "dots score" }, row.status === "error" ? "" : row.score.toFixed(2)),
    make("span", { class: "num cost" }, dollars(row.cost)),
    make("span", { class: "num time" }, duration(row.ms)));
  const node = make("li", { "aria-setsize": list.view.length, "aria-posinset": at + 1 }, link);
  if (list.view.length > MOST_DRAWN) {
    node.style.position = "absolute";
    node.style.top = at * drawn.height + "px";
    node.style.left = node.style.right = "0";
  }
  return node;
}

function inSight() {
  const count = list.view.length;
  if (count <= MOST_DRAWN) return [0, count];
  const above = -byId("list").getBoundingClientRect().top;
  const first = Math.min(count, Math.max(0, Math.floor(above / drawn.height) - 15));
  return [first, Math.min(count, first + Math.ceil(innerHeight / drawn.height) + 45)];
}

function draw() {
  const box = byId("list");
  drawn.height = innerWidth <= 560 ? 52 : 44;
  box.style.height = list.view.length > MOST_DRAWN ? list.view.length * drawn.height + "px" : "";
  const [first, end] = inSight();
  const what = [first, end, list.view.length, drawn.height].join();
  if (what === drawn.what && drawn.of === list.view) return;
  if (drawn.of !== list.view || drawn.what.split(",")[3] !== String(drawn.height)) {
    box.replaceChildren();
    drawn.nodes.clear();
  }
  drawn.what = what;
  drawn.of = list.view;
  for (const [at, node] of drawn.nodes) {
    if ((at < first || at >= end) && !node.contains(document.activeElement)) {
      node.remove();
      drawn.nodes.delete(at);
    }
  }
  addRows(box, first, end);
}

// Rows stay in their order in the page, for the tab key and for screen readers.
function addRows(box, first, end) {
  const lowest = Math.min(...drawn.nodes.keys());
  const before = document.createDocumentFragment(), after = document.createDocumentFragment();
  for (let at = first; at < end; at++) {
    if (drawn.nodes.has(at)) continue;
    const node = rowNode(list.view[at], at);
    drawn.nodes.set(at, node);
    (at < lowest ? before : after).append(node);
  }
  box.prepend(before);
  box.append(after);
}

function redraw() {
  drawn.of = null;
  measureBar();
  draw();
}

function measureBar() {
  document.documentElement.style.setProperty("--bar", byId("bar").offsetHeight + "px");
}

// Mark a row as the current one, and bring it into sight.
function markRow(at, focus) {
  list.at = at;
  for (const each of document.querySelectorAll("#list a[aria-current]")) each.removeAttribute("aria-current");
  if (at < 0) return;
  const top = byId("list").getBoundingClientRect().top + scrollY + at * drawn.height;
  const bar = byId("bar").offsetHeight;
  if (top < scrollY + bar + 4) scrollTo(0, top - bar - 8);
  else if (top + drawn.height > scrollY + innerHeight) scrollTo(0, top + drawn.height - innerHeight + 60);
  draw();
  const link = drawn.nodes.get(at)?.firstChild;
  if (!link) return;
  link.setAttribute("aria-current", "true");
  if (focus) link.focus({ preventScroll: true });
}

// On paper: the cases that did not pass.
function drawForPrint() {
  if (current.row || list.view.length <= MOST_DRAWN) return;
  const all = list.view;
  list.view = all.filter((row) => row.status !== "pass").slice(0, 300);
  byId("list").replaceChildren(...list.view.map(rowNode));
  list.view = all;
  drawn.of = null;
}
