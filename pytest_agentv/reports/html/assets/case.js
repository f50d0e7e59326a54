// One case.

function scoreBar(score, threshold) {
  const limit = threshold ?? 1;
  return make("svg", { class: "score-bar", viewBox: "0 0 64 9", "aria-hidden": "true" },
    make("rect", { x: 0, y: 1, width: 64, height: 7, rx: 2, class: "fill-rail" }),
    make("rect", { x: 0, y: 1, width: Math.max(0, 64 * score), height: 7, rx: 2, class: score >= limit - 1e-9 ? "fill-pass" : "fill-fail" }),
    make("rect", { x: Math.max(0, 64 * limit - 2), y: 0, width: 2, height: 9, class: "fill-ink" }));
}

function evaluatorNode(each, threshold) {
  const low = each.error || each.score < (threshold ?? 1) - 1e-9;
  const about = [each.type, each.model, each.weight !== undefined && each.weight !== 1 ? "weight " + each.weight : "", duration(each.duration_ms)];
  return make("div", { class: "evaluator" + (each.depth ? " member" : "") },
    make("div", {}, make("b", {}, each.name), make("div", { class: "small mute" }, about.filter(Boolean).join(", "))),
    make("div", { class: "score" }, scoreBar(each.score, threshold), make("span", {}, (each.error ? "! " : low ? "✕ " : "✓ ") + each.score.toFixed(2))),
    make("div", { class: "reasons", dir: "auto" },
      each.error ? make("div", {}, make("b", { class: "e" }, "! could not judge: "), each.error) : null,
      (each.misses || []).map((miss) => make("div", {}, make("b", { class: "f" }, "✕ "), unseen("missed: "), miss)),
      (each.hits || []).map((hit) => make("div", {}, make("b", { class: "p" }, "✓ "), unseen("met: "), hit)),
      each.reasoning && each.reasoning !== each.error ? folded(each.reasoning, 320) : null));
}

function copy(control, text) {
  const before = control.textContent;
  const done = () => { control.textContent = "Copied"; setTimeout(() => (control.textContent = before), 1200); };
  if (navigator.clipboard) navigator.clipboard.writeText(text).then(done, () => prompt("Copy:", text));
  else prompt("Copy:", text);
}

function heading(row, detail) {
  const others = data.rows.filter((each) => each !== row && each.id === row.id && each.file === row.file && each.target !== row.target);
  return make("div", { class: "head" },
    make("div", { class: "actions" }, button("↑", () => step(-1), "Previous (k)"), button("↓", () => step(1), "Next (j)"),
      button("Copy link", (event) => copy(event.currentTarget, location.href)),
      detail.rerun ? button("Copy command", (event) => copy(event.currentTarget, detail.rerun), detail.rerun_in) : null,
      button("Close", closeCase, "Esc")),
    make("h1", { tabindex: "-1", id: "case-title" }, make("span", { class: "tag " + row.status }, SIGN[row.status] + " " + WORD[row.status]), " ", row.id),
    make("div", { class: "mute small" }, make("span", { class: "mono" }, detail.place), " · ", row.target, row.tags.length ? " · " + row.tags.join(", ") : "",
      others.map((other) => [" · ", make("a", { href: caseLink(other.key) }, SIGN[other.status] + " " + other.target)])));
}

function whyBox(row, detail) {
  const lead = { pass: "Passed: ", fail: "Why: ", error: "Cannot be judged: ", scored: "Scored: " }[row.status];
  const base = detail.baseline;
  const tone = base && { broken: "fail", worse: "warn", better: "pass" }[base.word];
  return make("div", { class: "why-box " + row.status, dir: "auto" }, make("b", {}, lead), detail.why,
    base ? make("div", {}, make("span", { class: "tag " + (tone || "none") }, base.title), " ", base.say) : null);
}

// The views of an answer, by the words on their buttons.
function views(detail, answer) {
  const text = answer ? answer.text : detail.text, before = detail.baseline && detail.baseline.text;
  const images = imageNodes((answer || detail).images);
  const found = { Answer: () => (text ? make("div", {}, foreign(text, "quote"), images) : make("p", { class: "mute" }, "There is no answer.")) };
  if (detail.reference && text) found["Diff to the reference"] = () => difference(detail.reference, text, "the reference", "this answer");
  if (before && text) found["Diff to the baseline"] = () => difference(before, text, "the baseline", "this answer");
  if (detail.reference) found["Reference"] = () => foreign(detail.reference, "quote");
  if (before) found["Baseline's answer"] = () => foreign(before, "quote");
  return found;
}

// What depends on the answer that is looked at: its text, its evaluators, its conversation.
function answerPart(row, detail) {
  const part = make("div", {});
  const answers = detail.answers || [];
  const show = (number) => {
    const answer = answers[number];
    const found = views(detail, answer), shown = make("div", {});
    const modes = make("div", { class: "choice", role: "group", "aria-label": "Show the answer as" });
    const choose = (mode) => {
      for (const each of modes.children) each.setAttribute("aria-pressed", each.textContent === mode);
      shown.replaceChildren(found[mode]());
    };
    if (Object.keys(found).length > 1) for (const mode of Object.keys(found)) modes.append(button(mode, () => { current.mode = mode; choose(mode); }));
    const evaluators = answer ? answer.evaluators : detail.evaluators || [];
    part.replaceChildren(...[
      make("h2", {}, answers.length > 1 ? "Answers" : "Answer"),
      answers.length > 1 ? answerButtons(answers, number, show) : null,
      modes, shown,
      evaluators.length ? make("h2", {}, answers.length > 1 ? "Evaluators on answer " + (number + 1) : "Evaluators") : null,
      ...evaluators.map((each) => evaluatorNode(each, row.threshold)),
      make("h2", {}, "Conversation"), ...conversation(detail, answer).flat(3),
    ].filter(Boolean));
    const diff = "Diff to the baseline";
    choose(found[current.mode] && current.mode !== "Answer" ? current.mode : row.change === "broken" && found[diff] ? diff : "Answer");
  };
  show(answers.length ? detail.shown || 0 : undefined);
  return part;
}

function answerButtons(answers, shown, show) {
  return make("div", { class: "choice", role: "group", "aria-label": "Answers" }, answers.map((answer, number) => {
    const control = button(SIGN[answer.status] + " answer " + (number + 1) + ": " + answer.score.toFixed(2), () => show(number));
    control.setAttribute("aria-pressed", number === shown);
    return control;
  }));
}

function caseNodes(row, detail) {
  const files = detail.files || [], past = detail.history || [], context = detail.context || [];
  return [
    heading(row, detail), whyBox(row, detail),
    detail.question ? [make("h2", {}, "Question"), folded(detail.question, 1200)] : null,
    detail.expected ? make("p", { class: "small mute", dir: "auto" }, "Criteria: ", detail.expected) : null,
    answerPart(row, detail),
    detail.changes ? [make("h2", {}, "Changed files"), make("div", { class: "message mono" }, folded(detail.changes, 2000))] : null,
    context.length ? [make("h2", {}, "Retrieved"), context.map((text) => make("div", { class: "message" }, make("div", { class: "role" }, "text"), folded(text, 200)))] : null,
    files.length ? [make("h2", {}, "Files"), make("ul", { class: "small" }, files.map((file) => make("li", { class: "mono" }, file)))] : null,
    make("h2", {}, "Time and cost"), timing(detail),
    past.length ? [make("h2", {}, "This case in other runs"), make("ol", { class: "past" }, past.map(pastNode))] : null,
    make("details", { class: "raw" }, make("summary", {}, make("b", {}, "Raw record")), make("pre", { tabindex: "0" }, JSON.stringify(detail.raw, null, 1))),
  ].flat(9).filter(Boolean);
}

let backTo = 0;

async function openCase(key, focus) {
  const row = data.rows.find((each) => each.key === key);
  if (!row) {
    if (current.row) closeCase();
    if (!search) await applyFilters(); // without it the list has no rows
    byId("count").textContent = "This report has no case " + key + ".";
    byId("cases").scrollIntoView();
    return;
  }
  if (!current.row) backTo = scrollY;
  current.row = row;
  document.body.classList.add("split");
  document.title = SIGN[row.status] + " " + row.id + " – agentv report";
  if (!list.view.includes(row)) { clearFilters(); await applyFilters(); }
  measureBar();
  markRow(list.view.indexOf(row));
  const detail = await detailOf(row);
  if (current.row !== row) return;
  const box = byId("detail");
  box.replaceChildren(...caseNodes(row, detail));
  box.scrollTop = 0;
  if (innerWidth <= 1000) scrollTo(0, 0);
  if (focus !== false) byId("case-title").focus({ preventScroll: true });
}

function leaveCase() {
  current.row = null;
  document.body.classList.remove("split");
  document.title = byId("title").dataset.text;
  measureBar();
}

function closeCase() {
  const at = list.at;
  leaveCase();
  keepAddress();
  redraw();
  scrollTo(0, backTo);
  if (at >= 0) markRow(at, true);
}

function step(by) {
  const at = Math.max(0, Math.min(list.view.length - 1, list.at + by));
  if (!list.view.length || at === list.at) return;
  if (current.row) location.replace(caseLink(list.view[at].key));
  else markRow(at, true);
}

function stepToTrouble() {
  const at = list.view.findIndex((row, number) => number > list.at && row.status !== "pass");
  if (at >= 0) step(at - list.at);
}
