import { copyButton, fill, h } from "./dom.js";
import { example } from "./schema.js";

/** Longer answers are cut: a page of megabytes of text stops the browser. */
const SHOWN_CHARACTERS_MAX = 200_000;

/** In the shell that the copied line is for; the token itself never reaches the clipboard. */
const TOKEN_VARIABLE = "$ROAMFLEET_TOKEN";

/**
 * A form that sends one request of the operation.
 * @param {{ root: object, method: string, path: string, operation: object }} shown
 * @param {() => { token: string, org: string }} credentials
 */
export function tryIt({ root, method, path, operation }, credentials) {
  const parameters = operation.parameters ?? [];
  const inputs = new Map(
    parameters.filter(({ name }) => name !== "X-Service-Org-Id").map((parameter) => [parameter, parameterInput(parameter)]),
  );
  const body = bodyInput(root, operation);
  const output = h("div", { class: "answer", "aria-live": "polite" });
  const read = () => readRequest({ method, path, operation, inputs, body }, credentials());
  const send = async (event) => {
    event.preventDefault();
    fill(output, h("p", { class: "muted" }, "Sending…"));
    fill(output, await answerOf(read()));
  };
  return h(
    "form",
    { class: "try", onsubmit: send },
    [...inputs].map(([parameter, input]) =>
      h(
        "label",
        {},
        h(
          "span",
          {},
          h("code", {}, parameter.name),
          h("span", { class: "muted" }, ` ${parameter.in}${parameter.required ? "" : ", optional"}`),
        ),
        input,
      ),
    ),
    body === undefined ? null : h("label", { class: "wide" }, h("span", {}, "body"), body),
    h(
      "div",
      { class: "buttons" },
      h("button", { type: "submit" }, `Send ${method.toUpperCase()}`),
      copyButton("Copy as curl", () => asCurl(read())),
      copyButton("Copy as rf api", () => asRf(read())),
    ),
    output,
  );
}

function parameterInput({ name, in: place, required, schema }) {
  if (schema?.enum !== undefined)
    return h("select", {}, [h("option", { value: "" }, "–"), ...schema.enum.map((value) => h("option", { value }, value))]);
  const input = h("input", { type: "text", autocomplete: "off", spellcheck: "false", required: place === "path" });
  if (name === "Idempotency-Key" && required) input.value = crypto.randomUUID();
  return input;
}

function bodyInput(root, { requestBody }) {
  const [type, content] = Object.entries(requestBody?.content ?? {})[0] ?? [];
  if (type === undefined) return undefined;
  if (type !== "application/json") return h("input", { type: "file" });
  const area = h("textarea", { rows: 8, spellcheck: "false" });
  area.value = JSON.stringify(example(root, content.schema), null, 2);
  return area;
}

function readRequest({ method, path, operation, inputs, body }, { token, org }) {
  const headers = {};
  const query = new URLSearchParams();
  let url = path;
  for (const [{ name, in: place }, input] of inputs) {
    if (input.value === "") continue;
    if (place === "path") url = url.replace(`{${name}}`, encodeURIComponent(input.value));
    else if (place === "query") query.append(name, input.value);
    else headers[name] = input.value;
  }
  const secured = (operation.security ?? []).length > 0;
  if (org !== "" && (operation.parameters ?? []).some(({ name }) => name === "X-Service-Org-Id")) headers["X-Service-Org-Id"] = org;
  const [type] = Object.keys(operation.requestBody?.content ?? {});
  const payload = body === undefined ? undefined : body.type === "file" ? body.files[0] : body.value;
  if (payload !== undefined && payload !== "") headers["Content-Type"] = type;
  const search = query.toString();
  return { method: method.toUpperCase(), url: search === "" ? url : `${url}?${search}`, headers, payload, token: secured ? token : "" };
}

async function answerOf({ method, url, headers, payload, token }) {
  const started = performance.now();
  try {
    const response = await fetch(url, {
      method,
      headers: { ...headers, ...(token === "" ? {} : { Authorization: `Bearer ${token}` }) },
      credentials: "omit",
      ...(payload === undefined || payload === "" ? {} : { body: payload }),
    });
    const text = await response.text();
    const ms = Math.round(performance.now() - started);
    return [
      h(
        "p",
        {},
        h("span", { class: `status s${String(response.status)[0]}` }, `${response.status} ${response.statusText}`),
        h("span", { class: "muted" }, ` ${ms} ms`),
      ),
      h(
        "details",
        {},
        h("summary", {}, "headers"),
        h("pre", {}, [...response.headers].map(([name, value]) => `${name}: ${value}`).join("\n")),
      ),
      h("pre", {}, shown(text)),
    ];
  } catch (error) {
    return [h("p", { class: "status s5" }, `The request failed: ${error.message}`)];
  }
}

function shown(text) {
  let pretty = text;
  try {
    pretty = JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    // Not JSON: shown as it came.
  }
  return pretty.length > SHOWN_CHARACTERS_MAX ? `${pretty.slice(0, SHOWN_CHARACTERS_MAX)}\n…` : pretty;
}

const quoted = (text) => `'${text.replaceAll("'", `'\\''`)}'`;

function asCurl({ method, url, headers, payload, token }) {
  const parts = [`curl -X ${method} ${quoted(location.origin + url)}`];
  if (token !== "") parts.push(`-H "Authorization: Bearer ${TOKEN_VARIABLE}"`);
  for (const [name, value] of Object.entries(headers)) parts.push(`-H ${quoted(`${name}: ${value}`)}`);
  if (typeof payload === "string" && payload !== "") parts.push(`--data ${quoted(compact(payload))}`);
  else if (payload !== undefined) parts.push("--data-binary @FILE");
  return parts.join(" \\\n  ");
}

function asRf({ method, url, headers, payload }) {
  const parts = [`rf api ${method} ${quoted(url)}`];
  for (const [name, value] of Object.entries(headers)) if (name !== "Content-Type") parts.push(`-H ${quoted(`${name}: ${value}`)}`);
  if (typeof payload === "string" && payload !== "") return `echo ${quoted(compact(payload))} | ${parts.join(" ")} --input -`;
  return payload === undefined ? parts.join(" ") : `${parts.join(" ")} --input FILE`;
}

function compact(text) {
  try {
    return JSON.stringify(JSON.parse(text));
  } catch {
    return text;
  }
}
