"use strict";
// Texts and nodes. The only way in which anything gets on the page: no markup is ever made from data.

const byId = (id) => document.getElementById(id);

// Control, direction and invisible characters: shown, not obeyed.
const HIDDEN = /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f\u00ad\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\ud800-\udfff]|[\u{e0000}-\u{e007f}]/gu;

function addText(node, text) {
  let from = 0;
  for (const found of text.matchAll(HIDDEN)) {
    if (found.index > from) node.append(text.slice(from, found.index));
    const mark = document.createElement("span");
    mark.className = "mark";
    mark.textContent = "U+" + found[0].codePointAt(0).toString(16).toUpperCase().padStart(4, "0");
    node.append(mark);
    from = found.index + found[0].length;
  }
  if (from < text.length) node.append(text.slice(from));
}

const ALLOWED = new Set([
  "class", "id", "role", "type", "title", "open", "href", "dir", "tabindex",
  "src", "alt", "loading", "viewBox", "x", "y", "width", "height", "rx", "preserveAspectRatio",
]);
const IMAGE = /^data:image\/(png|jpeg|gif);base64,[A-Za-z0-9+/]+={0,2}$/;
const SVG_TAGS = new Set(["svg", "rect", "line", "circle"]);

// Make an element; `click` is the one listener, and links and images lead to this page only.
function make(tag, attributes, ...children) {
  const node = SVG_TAGS.has(tag)
    ? document.createElementNS("http://www.w3.org/2000/svg", tag)
    : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) {
    if (name === "click") {
      node.addEventListener("click", value);
    } else if (!ALLOWED.has(name) && !name.startsWith("aria-")) {
      throw Error("no such attribute here: " + name);
    } else if (name === "href" && !String(value).startsWith("#")) {
      throw Error("only links inside the report");
    } else if (name === "src" && !IMAGE.test(value)) {
      throw Error("only images inside the report");
    } else if (value !== null && value !== undefined && value !== false) {
      node.setAttribute(name, value === true ? "" : value);
    }
  }
  for (const child of children.flat(9)) {
    if (child === null || child === undefined || child === false || child === "") continue;
    if (child.nodeType) node.append(child);
    else addText(node, String(child));
  }
  return node;
}

const button = (text, click, title) => make("button", { type: "button", title, click }, text);
const foreign = (text, kind) => make("div", { class: "text " + (kind || ""), dir: "auto" }, text);
const unseen = (text) => make("span", { class: "hidden" }, text);
const caseLink = (key) => "#case=" + encodeURIComponent(key.toWellFormed ? key.toWellFormed() : key);

const SIGN = { pass: "✓", fail: "✕", error: "!", scored: "○" };
const WORD = { pass: "Passed", fail: "Failed", error: "Error", scored: "Scored" };

function duration(ms) {
  if (ms === null || ms === undefined) return "";
  if (Math.round(ms) < 1000) return Math.round(ms) + " ms";
  const seconds = (ms / 1000).toFixed(1), whole = Math.round(ms / 1000);
  return seconds < 60 ? seconds + " s" : Math.floor(whole / 60) + " min " + (whole % 60) + " s";
}

function dollars(amount) {
  if (amount === null || amount === undefined) return "";
  return "$" + amount.toFixed(amount < 0.01 && amount !== 0 ? 6 : 4);
}

const counted = (number) => number.toLocaleString("en");

// A text of which only the head is seen at first.
function folded(text, length) {
  text = String(text || "");
  if (text.length <= length) return foreign(text);
  return make("details", {}, make("summary", { class: "text" }, text.slice(0, length) + " …"), foreign(text));
}
