// The data, the filters, and the address that keeps them.

const NO_FILTERS = { q: "", outcome: "", file: "", tag: "", target: "", evaluator: "", reason: "", change: "", sort: "" };
const filters = { ...NO_FILTERS };
const data = { rows: [], index: null, chunks: [], texts: null };
const list = { view: [], at: -1 };
const current = { row: null, mode: "Answer" };

async function unpack(id) {
  const bytes = Uint8Array.from(atob(byId(id).textContent.trim()), (c) => c.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return JSON.parse(await new Response(stream).text());
}

const chunk = (number) => (data.chunks[number] ??= unpack("d" + number));

async function detailOf(row) {
  const size = data.index.chunk;
  return (await chunk(Math.floor(row.number / size)))[row.number % size];
}

async function readRows() {
  const index = data.index = await unpack("index");
  data.rows = index.rows.map((values, number) => {
    const [id, key, file, tags, target, status, score, threshold, cost, ms, marks, why, low, change, delta, reasons] = values;
    const row = {
      number, id, key, score, threshold, cost, ms, marks, why, change, delta,
      file: index.files[file], target: index.targets[target], tags: tags.map((tag) => index.tags[tag]),
      low: low.map((name) => index.evaluators[name]), reasons: reasons.map((name) => index.reasons[name]), status: ["pass", "fail", "error", "scored"][status],
    };
    row.passes = marks.split("p").length - 1;
    row.flaky = row.status !== "error" && row.passes > 0 && marks.includes("f");
    row.hay = [id, row.file, row.target, ...row.tags, why].join("\n").toLowerCase();
    return row;
  });
}

// All texts of all cases, in small letters; made when somebody searches for the first time.
function allTexts() {
  data.texts ??= (async () => {
    const texts = [];
    for (let number = 0; number < data.index.chunks; number++) {
      for (const detail of await chunk(number)) texts.push(textsOf(detail));
      await new Promise((done) => setTimeout(done));
    }
    return texts;
  })();
  return data.texts;
}

function textsOf(detail) {
  const judged = (evaluators) => (evaluators || []).flatMap((each) => [each.reasoning, (each.misses || []).join("; ")]);
  const answers = (detail.answers || []).flatMap((each) => [each.text, ...judged(each.evaluators)]);
  return [detail.question, detail.text, detail.why, detail.reference, detail.expected, ...judged(detail.evaluators), ...answers]
    .filter(Boolean).join("\n").toLowerCase();
}

function matches(row) {
  return (!filters.outcome || (filters.outcome === "flaky" ? row.flaky : row.status === filters.outcome))
    && (!filters.file || row.file === filters.file)
    && (!filters.tag || row.tags.includes(filters.tag))
    && (!filters.target || row.target === filters.target)
    && (!filters.evaluator || row.low.includes(filters.evaluator))
    && (!filters.reason || row.reasons.includes(filters.reason))
    && (!filters.change || row.change === filters.change);
}

const orders = {
  score: (a, b) => a.score - b.score,
  cost: (a, b) => (b.cost ?? -1) - (a.cost ?? -1),
  time: (a, b) => (b.ms ?? -1) - (a.ms ?? -1),
  name: (a, b) => (a.id < b.id ? -1 : a.id > b.id ? 1 : 0),
  delta: (a, b) => (a.delta ?? 9) - (b.delta ?? 9),
};

let search = 0;

// Find the cases that the filters leave. A later call wins over one that still reads texts.
async function applyFilters() {
  const mine = ++search, wanted = filters.q.toLowerCase().split(/\s+/).filter(Boolean);
  let found = data.rows.filter(matches);
  if (wanted.length) {
    byId("count").textContent = "Searching all texts …";
    const texts = await allTexts();
    if (mine !== search) return;
    found = found.filter((row) => wanted.every((word) => row.hay.includes(word) || texts[row.number].includes(word)));
  }
  if (orders[filters.sort]) found.sort(orders[filters.sort]);
  list.view = found;
  list.at = current.row ? found.indexOf(current.row) : -1;
  showCounts();
  redraw();
  if (!current.row) keepAddress();
}

function showCounts() {
  const found = list.view, of = (status) => found.filter((row) => row.status === status).length;
  const all = found.length === data.rows.length ? "" : " of " + counted(data.rows.length);
  byId("count").textContent = found.length
    ? counted(found.length) + all + " results: " + counted(of("pass")) + " passed, " + counted(of("fail")) + " failed, " + counted(of("error")) + " errors" + (of("scored") ? ", " + counted(of("scored")) + " with a score only" : "")
    : "Nothing matches. Clear takes all filters off.";
  for (const each of document.querySelectorAll("[data-outcome]")) {
    each.setAttribute("aria-pressed", each.dataset.outcome === filters.outcome);
  }
}

function query() {
  return new URLSearchParams(Object.entries(filters).filter(([, value]) => value)).toString();
}

function keepAddress() {
  history.replaceState(null, "", "#" + query());
}

function showFilters() {
  for (const name of Object.keys(filters)) {
    const field = byId("f-" + name);
    if (field) field.value = filters[name];
  }
}

function clearFilters() {
  Object.assign(filters, NO_FILTERS);
  showFilters();
}
