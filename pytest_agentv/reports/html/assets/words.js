// Two texts compared word by word.

const MOST_CELLS = 4e6;
const SAME = 0, REMOVED = -1, ADDED = 1;

const words = (text) => text.match(/\s+|[\p{L}\p{N}]+|[^\s]/gu) || [];

// Return parts [kind, text], by the longest common subsequence; null where the texts are too long for that.
function compareWords(before, after) {
  const a = words(before), b = words(after);
  let start = 0, endA = a.length, endB = b.length;
  while (start < endA && start < endB && a[start] === b[start]) start++;
  while (endA > start && endB > start && a[endA - 1] === b[endB - 1]) { endA--; endB--; }
  if ((endA - start) * (endB - start) > MOST_CELLS) return null;
  const middle = commonParts(a.slice(start, endA), b.slice(start, endB));
  return smoothed([[SAME, a.slice(0, start).join("")], ...middle, [SAME, a.slice(endA).join("")]]);
}

function commonParts(a, b) {
  const width = b.length + 1, lengths = new Uint16Array((a.length + 1) * width);
  for (let i = a.length - 1; i >= 0; i--) {
    for (let j = b.length - 1; j >= 0; j--) {
      lengths[i * width + j] = a[i] === b[j]
        ? lengths[(i + 1) * width + j + 1] + 1
        : Math.max(lengths[(i + 1) * width + j], lengths[i * width + j + 1]);
    }
  }
  const parts = [];
  let i = 0, j = 0;
  while (i < a.length || j < b.length) {
    if (i < a.length && j < b.length && a[i] === b[j]) { parts.push([SAME, a[i]]); i++; j++; }
    else if (j >= b.length || (i < a.length && lengths[(i + 1) * width + j] >= lengths[i * width + j + 1])) parts.push([REMOVED, a[i++]]);
    else parts.push([ADDED, b[j++]]);
  }
  return parts;
}

// Join parts of one kind. A short common run between two changes belongs to the change, which is easier to read.
function smoothed(parts) {
  const joined = [];
  for (const [kind, text] of parts) {
    const last = joined[joined.length - 1];
    if (last && last[0] === kind) last[1] += text;
    else if (text) joined.push([kind, text]);
  }
  const result = [];
  let removed = "", added = "";
  const flush = () => {
    if (removed) result.push([REMOVED, removed]);
    if (added) result.push([ADDED, added]);
    removed = added = "";
  };
  joined.forEach(([kind, text], at) => {
    if (kind === REMOVED) removed += text;
    else if (kind === ADDED) added += text;
    else if ((removed || added) && at < joined.length - 1 && text.trim().length <= 3) { removed += text; added += text; }
    else { flush(); result.push([SAME, text]); }
  });
  flush();
  return result;
}

function difference(before, after, nameBefore, nameAfter) {
  const parts = compareWords(before, after);
  if (!parts) {
    const column = (name, text) => make("div", {}, make("b", {}, name), foreign(text));
    return make("div", { class: "pair" }, column(nameBefore, before), column(nameAfter, after));
  }
  const same = parts.filter(([kind]) => kind === SAME).reduce((sum, [, text]) => sum + text.length, 0);
  const share = Math.round((200 * same) / Math.max(1, before.length + after.length));
  return make("div", {},
    make("p", { class: "small mute" }, make("del", {}, "struck"), " only in " + nameBefore + ", ",
      make("ins", {}, "underlined"), " only in " + nameAfter + "; " + share + " % of the text is the same"),
    make("div", { class: "text quote", dir: "auto" }, parts.map(([kind, text]) => kind === SAME
      ? make("span", {}, text)
      : make(kind === REMOVED ? "del" : "ins", {}, unseen(kind === REMOVED ? "[removed: " : "[added: "), text, unseen("]")))));
}
