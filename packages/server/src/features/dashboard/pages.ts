import { randomBytes } from "node:crypto";
import { routes } from "@roamfleet/protocol/routes";
import type { AskedPage, PageAnswer, Pages } from "../../kernel/serve.ts";
import type { MapTiles } from "../../map-tiles.ts";
import { type BuiltFile, type BuiltSite, type Dashboard, type Encoding, ENCODINGS } from "./site.ts";

const NONCE_BYTES = 16;
const YEAR = "public, max-age=31536000, immutable";
/**
 * First path segments of the API and of static files. An unknown path that starts with one of them returns 404 instead of the dashboard's
 * page.
 */
const NOT_PAGES = new Set(["assets", ...Object.values(routes).map(({ path }) => firstPart(path))]);

/**
 * Returns the Content-Security-Policy: no external sources, no inline code, no embedding in frames. Static files get it too, because the
 * script of a worker needs its own policy.
 */
const policy = (styles: string, images = ""): string =>
  `default-src 'none'; script-src 'self'; style-src ${styles}; img-src 'self' blob: data:${images}; font-src 'self'; connect-src 'self'; ` +
  "worker-src 'self'; manifest-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'";

const HEADERS = {
  "x-content-type-options": "nosniff",
  "referrer-policy": "no-referrer",
  "cross-origin-opener-policy": "same-origin",
  "cross-origin-resource-policy": "same-origin",
};

/** Serves the dashboard's page at all its paths, and the dashboard's static files. Returns undefined for other requests. */
export function dashboardPages(dashboard: Dashboard, map_tiles?: MapTiles): Pages {
  return (asked) => {
    const file = "site" in dashboard ? dashboard.site.files.get(asked.path) : undefined;
    if (file !== undefined) return answerFile(file, asked);
    // Clients that accept any type, such as curl, get the page at `/` only.
    const wants_page = accepts(asked.accept, "text/html") || (asked.path === "/" && accepts(asked.accept, "*/*"));
    if (!wants_page || NOT_PAGES.has(firstPart(asked.path))) return undefined;
    return "site" in dashboard ? answerPage(dashboard.site, map_tiles) : answerProblem(dashboard.problem);
  };
}

/** Answers with the page. The URL of map tiles is in a meta element, and only its origin is allowed for images. */
function answerPage({ page }: BuiltSite, tiles: MapTiles | undefined): PageAnswer {
  const nonce = randomBytes(NONCE_BYTES).toString("base64");
  return {
    status: 200,
    headers: {
      ...HEADERS,
      "content-type": "text/html; charset=utf-8",
      "content-security-policy": policy(`'self' 'nonce-${nonce}'`, tiles === undefined ? "" : ` ${tiles.origin}`),
      "cache-control": "no-store",
    },
    body: tiles === undefined ? page.join(nonce) : page.join(nonce).replace("<head>", () => `<head>${metaOf(tiles)}`),
  };
}

const metaOf = ({ url, attribution = "" }: MapTiles): string =>
  `<meta name="map-tiles" content="${escapeHtml(url)}" data-attribution="${escapeHtml(attribution)}" />`;

const escapeHtml = (text: string): string => text.replace(/[&<>"]/g, (character) => `&#${character.charCodeAt(0)};`);

function answerFile(file: BuiltFile, { accept_encoding, if_none_match }: AskedPage): PageAnswer {
  const encoding = chooseEncoding(accept_encoding, file.encoded);
  const etag = `"${file.tag}${encoding === undefined ? "" : `-${encoding}`}"`;
  const headers = {
    ...HEADERS,
    "content-security-policy": policy("'self'"),
    // A file without a hash in its name is revalidated on each use, usually with a 304.
    "cache-control": file.is_hashed ? YEAR : "no-cache",
    vary: "accept-encoding",
    etag,
  };
  if (if_none_match !== undefined && isKnown(if_none_match, etag)) return { status: 304, headers, body: "" };
  const body = encoding === undefined ? file.identity : (file.encoded[encoding] as Buffer);
  const encoded = encoding === undefined ? {} : { "content-encoding": encoding };
  return { status: 200, headers: { ...headers, ...encoded, "content-type": file.content_type }, body };
}

const isKnown = (if_none_match: string, etag: string): boolean =>
  if_none_match.trim() === "*" || if_none_match.split(",").some((tag) => tag.trim().replace(/^W\//, "") === etag);

/** Returns a page that states the problem. The page uses no style or script, because those files are missing. */
function answerProblem(problem: string): PageAnswer {
  return {
    status: 503,
    headers: {
      ...HEADERS,
      "content-type": "text/html; charset=utf-8",
      "content-security-policy": "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
      "cache-control": "no-store",
    },
    body:
      '<!doctype html>\n<html lang="en">\n<meta charset="utf-8">\n<title>Roamfleet: no dashboard</title>\n' +
      `<h1>The dashboard is not available</h1>\n<p>${problem}</p>\n` +
      '<p>The API works without it: see <a href="/docs">its reference</a>, or use the command <code>rf</code>.</p>\n</html>\n',
  };
}

function firstPart(path: string): string {
  return path.split("/", 2)[1] ?? "";
}

/** Whether the header `Accept` lists exactly this type with a weight above 0. Without the header, only the wildcard type matches. */
function accepts(accept: string | undefined, type: string): boolean {
  if (accept === undefined) return type === "*/*";
  return weighed(accept).some(([name, weight]) => name === type && weight > 0);
}

/** Returns the best available encoding that `Accept-Encoding` allows; undefined for no encoding. */
function chooseEncoding(accept_encoding: string | undefined, there: Partial<Record<Encoding, unknown>>): Encoding | undefined {
  const weights = new Map(weighed(accept_encoding ?? ""));
  const weightOf = (encoding: Encoding): number => weights.get(encoding) ?? weights.get("*") ?? 0;
  return ENCODINGS.filter((encoding) => there[encoding] !== undefined && weightOf(encoding) > 0).toSorted(
    (a, b) => weightOf(b) - weightOf(a),
  )[0];
}

function weighed(header: string): [name: string, weight: number][] {
  return header.split(",").map((part) => {
    const [name = "", ...parameters] = part.split(";").map((piece) => piece.trim().toLowerCase());
    const weight = parameters.find((parameter) => parameter.startsWith("q="))?.slice(2);
    return [name, weight === undefined ? 1 : Number(weight) || 0];
  });
}
