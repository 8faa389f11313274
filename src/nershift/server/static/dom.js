// Small helpers around the document. Text always goes in as text, never as markup.

export const byId = (id) => document.getElementById(id);

/** An element with properties (`class`, `dataset`, `on` listeners, attributes) and children (null is left out). */
export function make(tag, properties = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (value === undefined || value === null || value === false) continue;
    if (name === "class") node.className = value;
    else if (name === "dataset") Object.assign(node.dataset, value);
    else if (name === "on") for (const [event, listener] of Object.entries(value)) node.addEventListener(event, listener);
    else node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.filter((child) => child !== null && child !== undefined));
  return node;
}

/** Fill a select, keeping its choice where that is still offered. */
export const fillSelect = (select, names, chosen) => fillOptions(select, names.map((name) => [name, name]), chosen);

/** The same with [value, text] for each option. An open list is left alone while nothing has changed. */
export function fillOptions(select, options, chosen = select.value) {
  const there = [...select.options].map((option) => [option.value, option.text]);
  if (JSON.stringify(there) !== JSON.stringify(options))
    select.replaceChildren(...options.map(([value, text]) => make("option", { value }, text)));
  if (options.some(([value]) => value === chosen)) select.value = chosen;
}

export const percent = (share) => `${Math.round(100 * share)} %`;

export const count = (number, one, many = `${one}s`) => `${number} ${number === 1 ? one : many}`;

/** Show what went wrong, and what to do about it, where screen readers announce it. */
export function showError(error) {
  const shown = byId("alert").querySelector("p")?.textContent;
  if (shown === error.message) return; // announced once
  const close = make("button", { type: "button", "aria-label": "Dismiss", on: { click: clearError } }, "×");
  const fix = error.fix ? make("p", { class: "fix" }, error.fix) : null;
  byId("alert").replaceChildren(make("div", { class: "problem" }, make("div", {}, make("p", {}, error.message), fix), close));
}

export function clearError() {
  byId("alert").replaceChildren();
}

/** Ask a question in a window of its own; whether the answer was `yes`. */
export function ask(question, yes, no) {
  const box = byId("confirm");
  byId("confirm-text").textContent = question;
  byId("confirm-yes").textContent = yes;
  byId("confirm-no").textContent = no;
  box.returnValue = "no";
  box.showModal();
  return new Promise((answer) => box.addEventListener("close", () => answer(box.returnValue === "yes"), { once: true }));
}

/**
 * Run something that may fail and show the failure. Meanwhile `button` is busy: it does nothing when pressed again,
 * but keeps the focus, which a disabled button would lose.
 */
export async function attempt(action, button = null) {
  if (button?.ariaBusy === "true") return undefined;
  clearError();
  if (button) button.ariaBusy = "true";
  try {
    return await action();
  } catch (error) {
    showError(error);
    return undefined;
  } finally {
    if (button) button.ariaBusy = null;
  }
}
