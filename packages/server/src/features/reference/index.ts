import { readFileSync } from "node:fs";
import path from "node:path";
import { buildOpenapi } from "@roamfleet/protocol/openapi";
import { type Document, routes } from "@roamfleet/protocol/routes";
import packageJson from "../../../package.json" with { type: "json" };
import type { Plane } from "../../context.ts";
import type { Http } from "../../kernel/http.ts";
import { PACKAGE_DIRECTORY } from "../../kernel/package-directory.ts";
import { Answer, serve, serveStatic } from "../../kernel/serve.ts";

const STATIC_DIRECTORY = path.join(PACKAGE_DIRECTORY, "static", "docs");

/** The static files that the page of the API reference loads. */
const ASSETS = {
  "app.js": "text/javascript; charset=utf-8",
  "dom.js": "text/javascript; charset=utf-8",
  "operation.js": "text/javascript; charset=utf-8",
  "schema.js": "text/javascript; charset=utf-8",
  "try-it.js": "text/javascript; charset=utf-8",
  "style.css": "text/css; charset=utf-8",
};

/**
 * The policy allows no external sources, no inline code and no embedding in frames. So a token typed into the page can be sent only to this
 * server.
 */
const PAGE_HEADERS = {
  "content-security-policy":
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
  "referrer-policy": "no-referrer",
  "cross-origin-opener-policy": "same-origin",
};

/** Serves the OpenAPI documents of the API and of the agent's routes, and the page that shows them. */
export function referenceRoutes(http: Http, plane: Plane): void {
  const file = (body: string, content_type: string, headers = {}) =>
    new Answer<never>(200, body, { "content-type": content_type, ...headers });
  const [api, agent, page] = [documentText("api"), documentText("agent"), readAsset("index.html")];
  serve(http, plane, routes.getOpenapi, async () => file(api, "application/json; charset=utf-8"));
  serve(http, plane, routes.getAgentOpenapi, async () => file(agent, "application/json; charset=utf-8"));
  serve(http, plane, routes.getDocs, async () => file(page, "text/html; charset=utf-8", PAGE_HEADERS));
  for (const [name, content_type] of Object.entries(ASSETS)) {
    serveStatic(http, { path: `${routes.getDocs.path}/${name}`, body: readAsset(name), content_type, headers: PAGE_HEADERS });
  }
}

const texts: Partial<Record<Document, string>> = {};

/** Returns an OpenAPI document as JSON. Builds it once per process, because a build takes 20 ms and tests start hundreds of servers. */
const documentText = (document: Document): string =>
  (texts[document] ??= JSON.stringify(buildOpenapi(routes, document, packageJson.version)));

const readAsset = (name: string): string => readFileSync(path.join(STATIC_DIRECTORY, name), "utf8");
