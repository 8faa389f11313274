// The server's routes as functions. Every failure is an ApiError with the server's own message and fix.

const TOKEN = "nershift-token";

export class ApiError extends Error {
  constructor(status, code, message, fix = "") {
    super(message);
    Object.assign(this, { status, code, fix });
  }
}

/** Move a token from the address, where it would be copied along, into the memory of this tab. */
export function takeToken() {
  const given = new URLSearchParams(location.hash.slice(1)).get("token");
  if (given === null) return;
  sessionStorage.setItem(TOKEN, given);
  history.replaceState(null, "", location.pathname + location.search);
}

async function send(method, path, body) {
  const headers = {};
  const token = sessionStorage.getItem(TOKEN);
  if (token) headers.Authorization = `Bearer ${token}`;
  if (body !== undefined) headers["Content-Type"] = "application/json";
  let answer;
  try {
    answer = await fetch(path, { method, headers, body: body === undefined ? undefined : JSON.stringify(body) });
  } catch {
    throw new ApiError(0, "unreachable", "The server does not answer.", "See whether it is still running, then try again.");
  }
  if (!answer.ok) throw await failure(answer);
  return answer;
}

async function failure(answer) {
  let problem = {};
  try {
    problem = (await answer.json()).error ?? {};
  } catch {
    // Not the server's own words (a proxy, perhaps): the status has to do.
  }
  const fix = problem.fix || (answer.status === 401 ? "Open the page with #token=… at the end of its address." : "");
  return new ApiError(answer.status, problem.code ?? "", problem.message ?? `The server answered ${answer.status}.`, fix);
}

const json = async (...request) => (await send(...request)).json();

export const models = () => json("GET", "models");
export const formats = async () => (await json("GET", "formats")).formats;
export const chooseModel = (name) => json("POST", "models/current", { name });
export const tagText = (text, model) => json("POST", "tag", { texts: [text], model });
export const tagWords = (rows, model) => json("POST", "tag", { tokens: rows, model });
export const adapt = (sentences, note, crossValidate) =>
  json("POST", "adapt", { sentences: sentences.map(labelled), note, cross_validate: crossValidate });
export const sync = (request) => json("POST", "labels", request);
export const annotators = async () => (await json("GET", "annotators")).annotators;
export const agreement = (one, other) => json("GET", agreementPath(one, other, "json"));
export const files = (annotator) => json("GET", `files?${new URLSearchParams({ annotator })}`);
export const file = (id) => json("GET", `files/${encodeURIComponent(id)}`);
export const upload = (files, format) => json("POST", "files", { files, format });
export const removeFile = (id) => send("DELETE", `files/${encodeURIComponent(id)}`);
export const job = (name) => json("GET", `jobs/${encodeURIComponent(name)}`);
export const cancelJob = (name) => send("DELETE", `jobs/${encodeURIComponent(name)}`);

/** An accepted sentence as the server takes it. */
const labelled = ({ tokens, entities }) => ({
  tokens,
  entities: entities.map(({ start, end, label }) => ({ token_start: start, token_end: end, label })),
});

export async function exportLabels(sentences, format) {
  await save(await send("POST", "export", { sentences: sentences.map(labelled), format }), `labels.${format}`);
}

const agreementPath = (one, other, form) => `agreement?${new URLSearchParams({ one, other, form })}`;

/** The table of an agreement ("csv"), or all of it with the sentences that differ ("json"). */
export async function downloadAgreement(one, other, form) {
  await save(await send("GET", agreementPath(one, other, form)), `agreement.${form}`);
}

export async function downloadTagger(name) {
  await save(await send("GET", `models/${encodeURIComponent(name)}/folder`), `${name}.zip`);
}

/** Hand an answer to the browser as a download. A plain link could not carry the token. */
async function save(answer, fallback) {
  const named = /filename="?([^";]+)"?/.exec(answer.headers.get("Content-Disposition") ?? "");
  const address = URL.createObjectURL(await answer.blob());
  const link = document.createElement("a");
  Object.assign(link, { href: address, download: named?.[1] ?? fallback });
  link.click();
  setTimeout(() => URL.revokeObjectURL(address), 60_000);
}
