import type { TObject, TSchema } from "typebox";
import { Problem, type Document, type Route, schemaNames } from "./routes/index.ts";
import { CSRF_HEADER, SESSION_COOKIES } from "./paths.ts";
import { ROLES } from "./states.ts";

/** A node of the OpenAPI document, as plain JSON. */
type Node = Record<string, unknown>;

export interface OpenapiDocument extends Node {
  openapi: string;
  paths: Record<string, Record<string, Node>>;
  components: { schemas: Node; responses: Node; securitySchemes: Node };
}

const COMMON_PROSE = `
Responses are \`{"data": …}\` for one object and \`{"items": […], "next_cursor": …}\` for a list. A list without \`limit\` and \`cursor\` is complete
up to 10,000 rows; with either it comes in pages of at most 1,000.

Errors are \`{"error": {"code", "message"}}\`. Codes: \`bad_request\` 400, \`unauthorized\` 401, \`forbidden\` 403, \`not_found\` 404 (also for objects
of another org), \`conflict\` 409, \`http_error\` (405, 408, 413, 414, 415, 416, 429, 431, 503), \`internal_server_error\` 500. 429 and 503
carry \`Retry-After\`. A method that a path does not support returns 405 with \`Allow\`.

Ids are opaque. Times are RFC 3339. Unknown query parameters and body fields are refused; \`null\` in an optional field is the same as leaving it out.`;

const PROSE: Record<Document, { title: string; description: string }> = {
  api: {
    title: "Roamfleet API",
    description: `Control plane for robot fleets.${COMMON_PROSE}\n\nThe live streams (WebSocket) of a robot are not part of this document.`,
  },
  agent: { title: "Roamfleet agent API", description: `The API that the agent on a robot uses.${COMMON_PROSE}` },
};

const TAG_PROSE: Record<string, string> = {
  Admin: "Administration of the service.",
  Agent: "For robots.",
  Audit: "The audit log.",
  Configs: "Config values and their deployment to robots.",
  Deployments: "Deployment of releases to robots and fleets.",
  Enrollment: "Keys with which robots join a fleet.",
  Events: "Event stream of changes in the org.",
  Fleets: "Groups of robots.",
  Operation: "Health and metrics of the service.",
  Overview: "Statistics of robots and deployments.",
  People: "Users, tokens and sessions.",
  Reference: "API documentation.",
  Releases: "Versioned artifacts.",
  Robots: "Robots and their state.",
  Sites: "Sites, which contain fleets.",
  Views: "Saved views of the dashboard.",
};

const SECURITY_SCHEMES: Record<Document, Node> = {
  api: {
    portal_token: {
      type: "http",
      scheme: "bearer",
      description: "A portal token: `rf_org_…`, or `rf_user_…` of a user.",
    },
    session_cookie: {
      type: "apiKey",
      in: "cookie",
      name: SESSION_COOKIES.secure,
      description: `From \`POST /api/auth/session\`; over plain HTTP it is named \`${SESSION_COOKIES.plain}\`. An \`Authorization\` header takes precedence.`,
    },
    csrf_token: {
      type: "apiKey",
      in: "header",
      name: CSRF_HEADER,
      description:
        "Required with the cookie on every request except GET and HEAD: `csrf_token` of the session. `Origin` must be the server's origin.",
    },
    service_admin_token: {
      type: "http",
      scheme: "bearer",
      description: "The service's SERVICE_ADMIN_TOKEN. If the server has none, admin routes accept requests from the server's machine.",
    },
    service_admin_header: {
      type: "apiKey",
      in: "header",
      name: "X-Service-Admin-Token",
      description: "The same token, in addition to a portal token.",
    },
  },
  agent: {
    robot_signature: {
      type: "apiKey",
      in: "header",
      name: "Authorization",
      description:
        "`RobotSignature <robot_id>:<at>:<nonce>:<channel>:<base64 signature>` over `roamfleet-http-v3`, robot id, host, TLS channel (RFC 9266, base64; empty without TLS), method, path, `at` (milliseconds of the server's clock) and nonce, one per line. Each nonce is accepted once.",
    },
  },
};

const text = { type: "string" };
const HEADERS = {
  org: { "X-Service-Org-Id": { description: "The org that the request resolved to", schema: text } },
  retry: { "Retry-After": { description: "Seconds after which to try again", schema: { type: "integer" } } },
  location: { Location: { description: "Path of the created object", schema: text } },
  replayed: {
    "Idempotency-Replayed": {
      description: "The response repeats that of an earlier request with the same Idempotency-Key",
      schema: { const: "true" },
    },
  },
  range: { "Content-Range": { description: "Range and total size in bytes", schema: text } },
};

/** Errors by status: the description and headers of each. */
const ERRORS: Record<number, { name: string; description: string; headers?: Node }> = {
  400: { name: "BadRequest", description: "The request is malformed or invalid; the message names the field" },
  401: {
    name: "Unauthorized",
    description: "Credentials are missing or invalid",
    headers: { "WWW-Authenticate": { description: "How to authenticate", schema: text } },
  },
  403: { name: "Forbidden", description: "The credentials are valid but do not allow this" },
  404: { name: "NotFound", description: "The object does not exist, or belongs to another org; the message names the kind" },
  408: { name: "RequestTimeout", description: "The request took too long to arrive" },
  409: { name: "Conflict", description: "The request conflicts with the current state" },
  411: { name: "LengthRequired", description: "The request has no Content-Length" },
  412: {
    name: "PreconditionFailed",
    description: "The upload protocol version is not supported",
    headers: { "Tus-Version": { description: "The supported version", schema: text } },
  },
  413: { name: "ContentTooLarge", description: "The body is too large" },
  414: { name: "UriTooLong", description: "The URL is too long" },
  415: { name: "UnsupportedMediaType", description: "The route does not accept the body's type or encoding" },
  416: { name: "RangeNotSatisfiable", description: "The range is outside the content" },
  423: { name: "Locked", description: "The object is locked by another request; try again", headers: HEADERS.retry },
  429: { name: "TooManyRequests", description: "Too many requests", headers: HEADERS.retry },
  431: { name: "HeadersTooLarge", description: "The headers are larger than 16 KiB" },
  500: { name: "InternalServerError", description: "Unexpected server error" },
  503: { name: "ServiceUnavailable", description: "Temporarily unavailable; try again", headers: HEADERS.retry },
};

/**
 * Builds the OpenAPI 3.1 document of the routes that belong to `document`, from the same objects that the server runs, so that document and
 * server cannot differ.
 */
export function buildOpenapi(routes: Record<string, Route>, document: Document, version: string): OpenapiDocument {
  const listed = Object.values(routes).filter((route) => (route.document ?? "api") === document);
  const schemas = new Schemas();
  const used_errors = new Set<number>();
  const paths: OpenapiDocument["paths"] = {};
  for (const route of listed) {
    (paths[route.path] ??= {})[route.method.toLowerCase()] = operationOf(route, schemas);
    for (const status of errorsOf(route)) used_errors.add(status);
  }
  const responses = Object.fromEntries(
    [...used_errors].toSorted((a, b) => a - b).map((status) => errorResponse(status, document, schemas)),
  );
  const tags = [...new Set(listed.map(({ tag }) => tag))].toSorted();
  return {
    openapi: "3.1.1",
    info: { ...PROSE[document], version, license: { name: "Apache-2.0", identifier: "Apache-2.0" } },
    servers: [{ url: "/" }],
    tags: tags.map((name) => ({ name, description: TAG_PROSE[name] ?? name })),
    paths,
    components: { schemas: schemas.components(), responses, securitySchemes: SECURITY_SCHEMES[document] },
  };
}

function operationOf(route: Route, schemas: Schemas): Node {
  const body = bodyOf(route, schemas);
  const parameters = parametersOf(route, schemas);
  return {
    operationId: route.name,
    summary: route.summary,
    tags: [route.tag],
    security: securityOf(route),
    ...(isRole(route.access) ? { "x-required-role": route.access } : {}),
    ...(parameters.length > 0 ? { parameters } : {}),
    ...(body === undefined ? {} : { requestBody: body }),
    responses: {
      ...Object.fromEntries(
        Object.entries({ ...(route.dry_run === undefined ? {} : { 200: route.dry_run }), ...route.responses }).map(([status, schema]) => [
          status,
          successOf(route, Number(status), schema, schemas),
        ]),
      ),
      ...Object.fromEntries(
        errorsOf(route).map((status) => [status, { $ref: `#/components/responses/${ERRORS[status]?.name ?? status}` }]),
      ),
    },
  };
}

const isRole = (access: Route["access"]): boolean => (ROLES as readonly string[]).includes(access);
const hasBody = (route: Route): boolean => route.method !== "GET";

function securityOf({ access, by, method }: Route): Node[] {
  if (access === "public") return [];
  if (access === "robot") return [{ robot_signature: [] }];
  // The empty entry means no credentials: without an admin token, the server accepts requests from its own machine.
  if (access === "service_admin") return [{ service_admin_token: [] }, { service_admin_header: [], portal_token: [] }, {}];
  const token = { portal_token: [] };
  const session = method === "GET" ? { session_cookie: [] } : { session_cookie: [], csrf_token: [] };
  return by === undefined ? [token, session] : [by === "token" ? token : session];
}

/** Returns every error that the route can return. */
function errorsOf(route: Route): number[] {
  const portal = isRole(route.access);
  const works = route.tag !== "Reference" && route.tag !== "Operation";
  const statuses = new Set<number>([400, 414, 431, 500, ...(route.errors ?? [])]);
  if (route.access !== "public") statuses.add(401);
  if (route.access !== "public") statuses.add(403);
  if (route.params !== undefined) statuses.add(404);
  if (route.idempotency !== undefined) statuses.add(409);
  if (hasBody(route)) for (const status of [408, 413, 415]) statuses.add(status);
  if (portal || route.access === "robot" || works) statuses.add(429);
  if (works) statuses.add(503);
  return [...statuses].toSorted((a, b) => a - b);
}

function errorResponse(status: number, document: Document, schemas: Schemas): [string, Node] {
  const { name, description, headers } = ERRORS[status] ?? { name: String(status), description: "An error" };
  const all = { ...headers, ...(document === "api" ? HEADERS.org : {}) };
  return [
    name,
    {
      description,
      ...(Object.keys(all).length > 0 ? { headers: all } : {}),
      content: { "application/json": { schema: schemas.convert(Problem) } },
    },
  ];
}

const STATUS_PROSE: Record<number, string> = { 200: "OK", 201: "Created", 202: "Accepted: the work continues", 206: "Partial content" };

function successOf(route: Route, status: number, schema: TSchema | null, schemas: Schemas): Node {
  const headers = {
    ...(isRole(route.access) ? HEADERS.org : {}),
    ...(status === 201 ? HEADERS.location : {}),
    ...(route.idempotency === undefined ? {} : HEADERS.replayed),
    ...(status === 206 ? HEADERS.range : {}),
  };
  const secret = route.secret_fields?.map((field) => `\`${field}\``).join(", ");
  return {
    description: (STATUS_PROSE[status] ?? "OK") + (secret === undefined ? "" : `. A replay returns null in ${secret}`),
    ...(Object.keys(headers).length > 0 ? { headers } : {}),
    // A response with status 204 has no body.
    ...(status === 204
      ? {}
      : { content: { [route.produces ?? "application/json"]: schema === null ? {} : { schema: schemas.convert(schema) } } }),
  };
}

function bodyOf(route: Route, schemas: Schemas): Node | undefined {
  if (route.consumes !== undefined) return { required: true, content: { [route.consumes]: {} } };
  if (route.body === undefined || Object.keys(route.body.properties).length === 0) return undefined;
  const aliases = Object.entries(route.aliases ?? {});
  return {
    required: (route.body.required ?? []).length > 0,
    ...(aliases.length === 0
      ? {}
      : {
          description: `Aliases are accepted: ${aliases.map(([alias, field]) => `\`${alias}\` for \`${field}\``).join(", ")}.`,
          "x-field-aliases": route.aliases,
        }),
    content: { "application/json": { schema: schemas.convert(route.body) } },
  };
}

function parametersOf(route: Route, schemas: Schemas): Node[] {
  const parameters = [...fieldsOf("path", route.params, schemas), ...fieldsOf("query", route.query, schemas)];
  if (isRole(route.access)) {
    parameters.push(
      headerParameter("X-Service-Org-Id", false, { type: "string" }, "One of the token's orgs; default: the token's default org"),
    );
  }
  if (route.idempotency !== undefined) {
    const rule = "A repeated key returns the response of the first request without executing it again";
    parameters.push(
      headerParameter("Idempotency-Key", route.idempotency === "required", { type: "string", minLength: 1, maxLength: 255 }, rule),
    );
  }
  if (206 in route.responses) parameters.push(headerParameter("Range", false, { type: "string" }, "One range of bytes: `bytes=0-1023`"));
  return parameters;
}

const headerParameter = (name: string, required: boolean, schema: Node, description: string): Node => ({
  name,
  in: "header",
  required,
  schema,
  description,
});

function fieldsOf(place: "path" | "query", shape: TObject | undefined, schemas: Schemas): Node[] {
  const required = new Set<string>(shape?.required ?? []);
  return Object.entries(shape?.properties ?? {}).map(([name, property]) => {
    const { description, ...schema } = schemas.convert(property);
    return {
      name,
      in: place,
      required: place === "path" || required.has(name),
      ...(description === undefined ? {} : { description }),
      schema,
    };
  });
}

/** Converts TypeBox schemas to plain JSON. Each use of a named schema becomes a reference. */
class Schemas {
  readonly #used = new Map<string, Node>();

  convert(schema: TSchema): Node {
    const name = schemaNames.get(schema);
    if (name === undefined) return this.#plain(schema) as Node;
    if (!this.#used.has(name)) {
      // Register the schema before its fields are converted, because a schema may contain itself.
      this.#used.set(name, {});
      this.#used.set(name, this.#plain(schema) as Node);
    }
    return { $ref: `#/components/schemas/${name}` };
  }

  components(): Node {
    return Object.fromEntries([...this.#used].toSorted(([a], [b]) => (a < b ? -1 : 1)));
  }

  #plain(value: unknown): unknown {
    if (Array.isArray(value)) return value.map((item) => this.#child(item));
    if (typeof value !== "object" || value === null) return value;
    return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, this.#child(item)]));
  }

  #child(value: unknown): unknown {
    const is_object = typeof value === "object" && value !== null && !Array.isArray(value);
    return is_object ? this.convert(value) : this.#plain(value);
  }
}
