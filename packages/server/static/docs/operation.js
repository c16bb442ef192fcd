import { h, inline, methodBadge } from "./dom.js";
import { fieldTable, limitsOf, resolve, typeOf } from "./schema.js";
import { tryIt } from "./try-it.js";

/** One operation: what it takes, what it answers, and a form to try it. */
export function operationView(shown, credentials) {
  const { root, method, path, operation } = shown;
  return [
    h("p", { class: "muted" }, (operation.tags ?? []).join(", ")),
    h("h1", {}, operation.summary),
    h("p", { class: "route" }, methodBadge(method), h("code", {}, path)),
    h("p", { class: "muted" }, inline(whoMay(operation))),
    section("Parameters", parameterTable(operation.parameters ?? [])),
    bodySection(root, operation.requestBody),
    h("h2", {}, "Try it"),
    tryIt(shown, credentials),
    h("h2", {}, "Responses"),
    Object.entries(operation.responses).map(([status, response]) => answerView(root, status, response)),
  ];
}

function whoMay({ security = [], "x-required-role": role }) {
  if (role !== undefined) return `Needs a portal token whose role is at least \`${role}\`.`;
  const schemes = security.flatMap((one) => Object.keys(one));
  if (schemes.includes("service_admin_token"))
    return "Needs the service's admin token; if the server has none, only requests from its own machine are accepted.";
  return schemes.includes("robot_signature") ? "For robots only: each request is signed with the robot's key." : "Needs no token.";
}

const section = (title, content) => (content === undefined ? null : [h("h2", {}, title), content]);

function parameterTable(parameters) {
  if (parameters.length === 0) return undefined;
  return h(
    "dl",
    { class: "fields" },
    parameters.map(({ name, in: place, required, description, schema }) => [
      h("dt", {}, h("code", {}, name), h("span", { class: "optional" }, required ? place : `${place}, optional`)),
      h(
        "dd",
        {},
        h("span", { class: "type" }, typeOf(schema)),
        limitsOf(schema) === "" ? null : h("span", { class: "muted" }, ` ${limitsOf(schema)}`),
        description === undefined ? null : h("div", { class: "muted" }, inline(description)),
      ),
    ]),
  );
}

function bodySection(root, body) {
  const [type, content] = Object.entries(body?.content ?? {})[0] ?? [];
  if (type === undefined) return null;
  return [
    h("h2", {}, "Body"),
    body.description === undefined ? null : h("p", { class: "muted" }, inline(body.description)),
    content.schema === undefined ? h("p", {}, h("code", {}, type)) : fieldTable(root, content.schema),
  ];
}

function answerView(root, status, response) {
  const own = response.$ref === undefined ? response : root.components.responses[response.$ref.split("/").at(-1)];
  const [type, content] = Object.entries(own.content ?? {})[0] ?? [];
  const is_error = Number(status) >= 400;
  return h(
    "details",
    { class: "response", open: !is_error },
    h("summary", {}, h("span", { class: `status s${status[0]}` }, status), " ", inline(own.description)),
    headerList(own.headers),
    content?.schema === undefined
      ? h("p", {}, h("code", {}, type ?? "no content"))
      : is_error
        ? typeLine(content.schema)
        : fieldTable(root, content.schema),
  );
}

const typeLine = (schema) => h("p", { class: "type" }, typeOf(schema));

const headerList = (headers = {}) =>
  Object.keys(headers).length === 0
    ? null
    : h(
        "ul",
        { class: "headers" },
        Object.entries(headers).map(([name, { description }]) =>
          h("li", {}, h("code", {}, name), h("span", { class: "muted" }, ` ${description}`)),
        ),
      );

/** One schema with its fields. */
export function schemaView(root, name) {
  const schema = root.components.schemas[name];
  return [h("p", { class: "muted" }, "Schema"), h("h1", {}, name), fieldTable(root, resolve(root, schema))];
}
