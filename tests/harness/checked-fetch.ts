import assert from "node:assert/strict";
import { Ajv2020, type ValidateFunction } from "ajv/dist/2020.js";
import formats from "ajv-formats";

interface OpenapiDocument {
  paths: Record<string, Record<string, { responses: Record<string, { content?: Record<string, { schema?: unknown }> }> }>>;
}

/** One of the server's two OpenAPI documents, prepared for checking responses. */
class Reference {
  readonly #document: OpenapiDocument;
  readonly #ajv = new Ajv2020({ strict: false, allErrors: false });
  readonly #patterns: { pattern: RegExp; path: string }[];
  readonly #validators = new Map<string, ValidateFunction>();

  constructor(document: OpenapiDocument) {
    this.#document = document;
    formats.default(this.#ajv);
    this.#ajv.addSchema(document, "openapi");
    // A path without parameters takes precedence over a path with parameters: /api/configs/deployments over /api/configs/{id}.
    this.#patterns = Object.keys(document.paths)
      .toSorted((a, b) => a.split("{").length - b.split("{").length)
      .map((path) => ({ path, pattern: new RegExp(`^${path.replace(/[.]/g, "\\.").replace(/\{\w+\}/g, "[^/]+")}$`) }));
  }

  /** Fails if the response is not as the document describes. */
  async check(method: string, path: string, response: Response): Promise<void> {
    const shown = `${method} ${path} answered ${response.status}`;
    const found = this.#patterns.find(({ pattern }) => pattern.test(path))?.path;
    const verb = (method === "HEAD" ? "GET" : method).toLowerCase();
    const operation = found === undefined ? undefined : this.#document.paths[found]?.[verb];
    if (found === undefined || operation === undefined) {
      assert.ok([400, 401, 403, 404, 405, 429].includes(response.status), `${shown}, and no document names that route`);
      return;
    }
    const documented = [String(response.status), `${String(response.status)[0]}XX`, "default"].find(
      (status) => operation.responses[status] !== undefined,
    );
    assert.ok(documented !== undefined, `${shown}, which is not documented (${Object.keys(operation.responses).join(", ")})`);
    const content = operation.responses[documented]?.content;
    const type = (response.headers.get("content-type") ?? "").split(";")[0] ?? "";
    const declared = Object.keys(content ?? {});
    assert.ok(declared.length === 0 || declared.includes(type), `${shown} with ${type}, documented is ${declared.join(", ")}`);
    if (type !== "application/json" || method === "HEAD" || content?.[type]?.schema === undefined) return;
    const validate = this.#validator(found, verb, documented);
    const body: unknown = await response.clone().json();
    assert.ok(
      validate(body),
      `${shown} with a body that is not as documented: ${this.#ajv.errorsText(validate.errors)}\n${JSON.stringify(body).slice(0, 2_000)}`,
    );
  }

  #validator(path: string, verb: string, status: string): ValidateFunction {
    const pointer = ["paths", path, verb, "responses", status, "content", "application/json", "schema"]
      .map((part) => encodeURIComponent(part.replaceAll("~", "~0").replaceAll("/", "~1")))
      .join("/");
    const known = this.#validators.get(pointer);
    if (known !== undefined) return known;
    const made = this.#ajv.compile({ $ref: `openapi#/${pointer}` });
    this.#validators.set(pointer, made);
    return made;
  }
}

/** Compiled documents by text: all planes of a test file serve the same ones. */
const references = new Map<string, Reference>();

async function fetchReference(url: string): Promise<Reference> {
  const response = await fetch(url);
  const text = await response.text();
  assert.equal(response.status, 200, `${url}: ${text.slice(0, 200)}`);
  let reference = references.get(text);
  if (reference === undefined) references.set(text, (reference = new Reference(JSON.parse(text) as OpenapiDocument)));
  return reference;
}

/** Returns a fetch that fails the test if a response of the plane at `url()` does not match the plane's own documents. */
export function checkedFetch(url: () => string, send: typeof fetch = fetch): typeof fetch {
  let base: string | undefined;
  let loaded: Promise<{ api: Reference; agent: Reference }> | undefined;
  const load = (): Promise<{ api: Reference; agent: Reference }> => {
    if (base !== url()) loaded = undefined;
    base = url();
    loaded ??= Promise.all([fetchReference(`${base}/openapi.json`), fetchReference(`${base}/agent/openapi.json`)]).then(([api, agent]) => ({
      api,
      agent,
    }));
    // The request fails if the server is stopping. The next request then loads the documents again.
    loaded.catch(() => (base = undefined));
    return loaded;
  };
  return async (input, init) => {
    const response = await send(input, init);
    const at = new URL(input instanceof Request ? input.url : input);
    const { api, agent } = await load();
    await (at.pathname.startsWith("/agent/") ? agent : api).check(init?.method ?? "GET", at.pathname, response);
    return response;
  };
}
