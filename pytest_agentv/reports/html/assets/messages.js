// What was said and called.

// Images as the results hold them; of others the text says what they are.
function imageNodes(images) {
  const shown = (images || []).filter((each) => each.source);
  if (!shown.length) return null;
  return make("div", { class: "images" }, shown.map((each) =>
    make("figure", {}, make("img", { src: each.source, alt: each.text, loading: "lazy" }), make("figcaption", { class: "small mute" }, each.text))));
}

function plain(value) {
  return typeof value === "string" ? value : JSON.stringify(value);
}

function callLine(call) {
  const input = call.input;
  if (input && typeof input === "object" && !Array.isArray(input)) {
    return call.tool + "(" + Object.entries(input).map(([name, value]) => name + "=" + JSON.stringify(value)).join(", ") + ")";
  }
  return call.tool + "(" + (input === null || input === undefined ? "" : plain(input)) + ")";
}

function outputLine(call) {
  const output = call.output;
  if (output === null || output === undefined) return "";
  if (Array.isArray(output)) return " → " + output.length + (output.length === 1 ? " row" : " rows");
  const text = plain(output);
  return " → " + (text.length > 60 ? text.slice(0, 60) + " …" : text);
}

function callNode(call) {
  const time = call.ms === null || call.ms === undefined ? "" : ", " + duration(call.ms);
  const line = callLine(call), head = line.length > 160 ? line.slice(0, 160) + " …" : line;
  const summary = make("summary", {}, make("code", {}, head), make("span", { class: "mute small" }, outputLine(call) + time));
  const pretty = (name, value) => value === null || value === undefined ? null
    : [make("div", { class: "small mute" }, name), make("pre", { tabindex: "0" }, typeof value === "string" ? value : JSON.stringify(value, null, 2))];
  return [make("details", {}, summary, pretty("input", call.input), pretty("output", call.output)), imageNodes(call.images)];
}

function messageNode(message, length) {
  return make("div", { class: "message" }, make("div", { class: "role" }, message.role),
    make("div", {}, message.content ? folded(message.content, length) : null, imageNodes(message.images), (message.calls || []).map(callNode)));
}

function conversation(detail, answer) {
  const said = (answer && answer.messages && answer.messages.length ? answer.messages : detail.messages) || [];
  const text = answer ? answer.text : detail.text;
  return [
    (detail.prompt || []).map((message) => messageNode(message, 160)),
    detail.question ? messageNode({ role: "user", content: detail.question }, 600) : null,
    said.length ? said.map((message) => messageNode(message, 600)) : messageNode({ role: "assistant", content: text || "(no answer)", images: (answer || detail).images }, 600),
  ];
}
