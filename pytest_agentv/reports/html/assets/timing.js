// Where the time went: one bar for the case, and one for each of its answers on a common axis.

const PART_NAMES = ["target", "tools", "waiting", "judges", "other"];
const LANE = 600;

function bars(parts, scale, from, height) {
  let x = from * scale;
  return parts.map(([part, ms]) => {
    const width = ms * scale, bar = make("rect", { x, y: 0, width: Math.max(0.5, width - 1), height, class: "part-" + part });
    x += width;
    return bar;
  });
}

const strip = (kind, height, nodes) =>
  make("svg", { class: kind, viewBox: "0 0 " + LANE + " " + height, preserveAspectRatio: "none", "aria-hidden": "true" }, nodes);

const sum = (parts) => parts.reduce((total, [, ms]) => total + ms, 0);

function partKey(parts) {
  return parts.map(([part, ms], number) => [number ? " · " : "",
    make("svg", { class: "swatch", width: 10, height: 10, viewBox: "0 0 10 10", "aria-hidden": "true" }, make("rect", { x: 0, y: 0, width: 10, height: 10, class: "part-" + part })),
    " " + PART_NAMES[part] + " " + duration(ms)]);
}

// Answers below each other, each from the time it was asked; all from the left where that is not known.
function laneNodes(lanes) {
  const end = Math.max(1, ...lanes.map((lane) => (lane.at || 0) + sum(lane.parts))), scale = LANE / end;
  const isTimed = lanes.every((lane) => lane.at !== undefined);
  const row = (lane, number) => make("li", {},
    make("span", {}, make("b", { class: lane.status[0] }, SIGN[lane.status]), unseen(WORD[lane.status]), " answer " + (number + 1)),
    strip("lane", 10, [make("rect", { x: 0, y: 4.5, width: LANE, height: 1, class: "fill-rail" }), ...bars(lane.parts, scale, lane.at || 0, 10)]),
    make("span", { class: "num" }, isTimed && lane.at ? unseen("begun after " + duration(lane.at) + ", took ") : null, duration(sum(lane.parts))));
  return [make("ol", { class: "lanes" }, lanes.map(row)),
    make("p", { class: "small mute" }, isTimed ? "From left to right: " + duration(end) + " from the first answer's begin to the last one's end." : "It is not known when each answer began.")];
}

function timing(detail) {
  const parts = detail.time || [], lanes = detail.lanes || [], total = sum(parts) || 1;
  return make("div", {},
    lanes.length ? laneNodes(lanes) : parts.length ? strip("timing", 14, bars(parts, LANE / total, 0, 14)) : null,
    make("p", { class: "small" }, partKey(parts), parts.length && detail.cost ? " · in all " : "", detail.cost),
    detail.attempts ? make("p", { class: "small", dir: "auto" }, detail.attempts) : null);
}

function pastNode(past) {
  const sign = make("b", { class: past.status[0] }, SIGN[past.status]);
  return make("li", {}, sign, unseen(WORD[past.status]), " " + past.when + " ", make("span", { class: "mute small" }, past.status === "scored" ? past.score.toFixed(2) : past.judged > 1 ? past.passes + "/" + past.judged : "", " " + past.run));
}
