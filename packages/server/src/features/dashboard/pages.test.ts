import assert from "node:assert/strict";
import { test } from "node:test";
import { brotliCompressSync, brotliDecompressSync, gzipSync } from "node:zlib";
import { startFeaturePlane } from "../testing/feature-plane.ts";
import { servePages } from "../../kernel/serve.ts";
import { referenceRoutes } from "../reference/index.ts";
import { siteRoutes } from "../sites/index.ts";
import type { BuiltSite } from "./site.ts";
import { dashboardPages } from "./pages.ts";

const TIMEOUT = { timeout: 120_000 };
const SCRIPT = `export const text = "${"robot ".repeat(300)}";`;
const HTML = { accept: "text/html,application/xhtml+xml,*/*;q=0.8" };
const SITE: BuiltSite = {
  page: ['<script type="module" nonce="', '" src="/assets/index-1.js"></script><meta nonce="', '">'],
  files: new Map([
    [
      "/assets/index-1.js",
      {
        content_type: "text/javascript; charset=utf-8",
        tag: "tag",
        is_hashed: true,
        identity: Buffer.from(SCRIPT),
        encoded: { br: brotliCompressSync(SCRIPT), gzip: gzipSync(SCRIPT) },
      },
    ],
    ["/icon.svg", { content_type: "image/svg+xml", tag: "icon", is_hashed: false, identity: Buffer.from("<svg/>"), encoded: {} }],
  ]),
};

const start = (dashboard: Parameters<typeof dashboardPages>[0] = { site: SITE }) =>
  startFeaturePlane([referenceRoutes, siteRoutes, (http) => servePages(http, dashboardPages(dashboard))]);

test("serves the page at every dashboard path, with a new nonce for its content security policy", TIMEOUT, async () => {
  await using it = await start();
  const nonces = new Set<string>();
  for (const url of ["/", "/robots", "/robots/rob_1/logs?q=a", "/an/unknown/path", "/agents", "/apis"]) {
    const { status, headers, body } = await it.call<string>("GET", url, { headers: HTML });
    assert.equal(status, 200, url);
    assert.equal(headers["content-type"], "text/html; charset=utf-8");
    assert.equal(headers["cache-control"], "no-store");
    assert.equal(headers["x-content-type-options"], "nosniff");
    assert.equal(headers["referrer-policy"], "no-referrer");
    assert.equal(headers["cross-origin-opener-policy"], "same-origin");
    const policy = String(headers["content-security-policy"]);
    const [, nonce = ""] = /style-src 'self' 'nonce-([A-Za-z0-9+/=]{24})'/.exec(policy) ?? [];
    assert.match(policy, /^default-src 'none'; script-src 'self'; .*frame-ancestors 'none'$/);
    assert.doesNotMatch(policy, /unsafe|\*|https?:/);
    assert.equal(body, `<script type="module" nonce="${nonce}" src="/assets/index-1.js"></script><meta nonce="${nonce}">`);
    nonces.add(nonce);
  }
  assert.equal(nonces.size, 6);
});

test("names the map tiles of the settings in the page, and allows images of their origin only", TIMEOUT, async () => {
  const tiles = { url: 'https://tiles.example/{z}/{x}/{y}?a&b="', origin: "https://tiles.example", attribution: "<b>© Example" };
  const pages = dashboardPages({ site: { ...SITE, page: ["<head>", "</head>"] } }, tiles);
  await using it = await startFeaturePlane([(http) => servePages(http, pages)]);
  const { headers, body } = await it.call<string>("GET", "/map", { headers: HTML });
  assert.match(String(headers["content-security-policy"]), /img-src 'self' blob: data: https:\/\/tiles\.example; font-src 'self'/);
  assert.equal(
    body.replace(/(?<=\/>)[^<]*/, ""),
    '<head><meta name="map-tiles" content="https://tiles.example/{z}/{x}/{y}?a&#38;b=&#34;" data-attribution="&#60;b&#62;© Example" /></head>',
  );
});

test("paths outside the dashboard keep the JSON errors of the API", TIMEOUT, async () => {
  await using it = await start();
  for (const url of [
    "/docs/nothing",
    "/agent",
    "/agent/nothing",
    "/healthz/x",
    "/openapi.json/x",
    "/assets/index-0.js",
    "/assets",
    "/metrics",
  ]) {
    const { status, headers } = await it.call("GET", url, { headers: HTML });
    assert.deepEqual([status, headers["content-type"]], [404, "application/json; charset=utf-8"], url);
  }
  assert.equal((await it.call("GET", "/api/nothing", { headers: HTML })).status, 401);
  assert.equal((await it.call("GET", "/robots", { headers: { accept: "application/json" } })).status, 404);
  assert.equal((await it.call("GET", "/robots", { headers: { accept: "*/*" } })).status, 404);
  assert.equal((await it.call("GET", "/robots", { headers: { accept: "text/html;q=0, */*" } })).status, 404);
  assert.equal((await it.call("GET", "/", { headers: { accept: "*/*" } })).status, 200);
  assert.equal((await it.call("POST", "/robots", { headers: HTML })).status, 404);
  assert.equal((await it.call("POST", "/", { headers: HTML })).status, 404);
  assert.equal((await it.call("POST", "/docs", { headers: HTML })).status, 405);
  const without = await start({ problem: "The build of the dashboard failed." });
  await using _ = without;
  const page = await without.call<string>("GET", "/robots", { headers: HTML });
  assert.equal(page.status, 503);
  assert.match(page.body, /The build of the dashboard failed\./);
  assert.match(String(page.headers["content-security-policy"]), /default-src 'none'/);
});

test("serves files in the best accepted encoding, cacheable for a year, and 304 for a known ETag", TIMEOUT, async () => {
  await using it = await start();
  const get = (accept_encoding: string, more: Record<string, string> = {}) =>
    it.call<string>("GET", "/assets/index-1.js", { headers: { "accept-encoding": accept_encoding, ...more } });
  const wanted: [asked: string, given: string | undefined][] = [
    ["gzip, deflate, br, zstd", "br"],
    ["gzip", "gzip"],
    ["br;q=0.5, gzip;q=1", "gzip"],
    ["br;q=0, *", "gzip"],
    ["*", "br"],
    ["identity", undefined],
    ["", undefined],
  ];
  for (const [asked, given] of wanted) {
    const { status, headers } = await get(asked);
    assert.deepEqual([status, headers["content-encoding"]], [200, given], asked);
    assert.equal(headers["etag"], given === undefined ? '"tag"' : `"tag-${given}"`);
    assert.equal(headers["content-type"], "text/javascript; charset=utf-8");
    assert.equal(headers["cache-control"], "public, max-age=31536000, immutable");
    assert.equal(headers["vary"], "accept-encoding");
    assert.equal(headers["x-content-type-options"], "nosniff");
  }
  assert.equal((await get("identity")).body, SCRIPT);
  for (const [known, status] of [
    ['"tag-br"', 304],
    ['W/"tag-br"', 304],
    ['"other", "tag-br"', 304],
    ["*", 304],
    ['"tag"', 200],
  ] as const) {
    const reply = await get("br", { "if-none-match": known });
    assert.equal(reply.status, status, known);
    assert.equal(reply.headers["etag"], '"tag-br"');
    if (status === 304) assert.equal(reply.body, "");
  }
  const icon = await it.call<string>("GET", "/icon.svg");
  assert.deepEqual([icon.headers["cache-control"], icon.headers["content-type"]], ["no-cache", "image/svg+xml"]);
});

test("returns 404 for a path outside the dashboard's directory", TIMEOUT, async () => {
  await using it = await start();
  for (const url of [
    "/assets/../../package.json",
    "/assets/..%2f..%2fpackage.json",
    "/assets/%2e%2e/%2e%2e/package.json",
    "/../package.json",
    "//etc/passwd",
    "/assets/index-1.js%00",
    "/assets/index-1.js.br",
    "/.vite/manifest.json",
    "/index.html",
    "/assets/__proto__",
    "/__proto__",
  ]) {
    const { status, headers } = await it.call<unknown>("GET", url);
    assert.deepEqual([status, headers["content-type"]], [404, "application/json; charset=utf-8"], url);
  }
});

test("HEAD returns the headers of GET without the body", TIMEOUT, async () => {
  await using it = await start();
  const page = await it.call("GET", "/", { headers: HTML });
  assert.equal((await fetchHead(it, "/")).headers.get("content-length"), page.headers["content-length"]);
  const file = await fetchHead(it, "/assets/index-1.js");
  assert.equal(file.status, 200);
  assert.equal(file.headers.get("content-length"), String(brotliCompressSync(SCRIPT).length));
  assert.equal((await file.arrayBuffer()).byteLength, 0);
  assert.equal(brotliDecompressSync(SITE.files.get("/assets/index-1.js")!.encoded.br!).toString(), SCRIPT);
});

async function fetchHead(it: Awaited<ReturnType<typeof start>>, path: string): Promise<Response> {
  return fetch(`${it.url}${path}`, { method: "HEAD", headers: { ...HTML, "accept-encoding": "br" } });
}
