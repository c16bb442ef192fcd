import assert from "node:assert/strict";
import { readdir, readFile, writeFile } from "node:fs/promises";
import { test } from "node:test";
import type { OpenapiDocument } from "@roamfleet/protocol/openapi";
import { routes } from "@roamfleet/protocol/routes";
import { Validator } from "@seriousme/openapi-schema-validator";
import { startFeaturePlane } from "../testing/feature-plane.ts";
import { referenceRoutes } from "./index.ts";

const TIMEOUT = { timeout: 120_000 };
const SNAPSHOT = new URL("../../../../../tests/snapshots/openapi.json", import.meta.url);
const STATIC = new URL("../../../static/docs/", import.meta.url);

for (const url of ["/openapi.json", "/agent/openapi.json"]) {
  test(`${url} is valid OpenAPI 3.1 and needs no token`, TIMEOUT, async () => {
    await using it = await startFeaturePlane([referenceRoutes]);
    const { status, headers, body } = await it.call<OpenapiDocument>("GET", url);
    assert.equal(status, 200);
    assert.equal(headers["content-type"], "application/json; charset=utf-8");
    assert.match(body.openapi, /^3\.1\./);
    const validator = new Validator();
    assert.deepEqual(await validator.validate(body), { valid: true });
    assert.equal(validator.version, "3.1");
    const broken = { ...body, paths: { ...body.paths, "/x": { get: { responses: { nonsense: {} } } } } };
    assert.equal((await new Validator().validate(broken)).valid, false);
  });
}

test("the OpenAPI document equals its snapshot in tests/snapshots", TIMEOUT, async () => {
  await using it = await startFeaturePlane([referenceRoutes]);
  const { body } = await it.call<OpenapiDocument>("GET", "/openapi.json");
  const text = `${JSON.stringify(body, null, 2)}\n`;
  if (process.env["UPDATE_SNAPSHOTS"] === "1") await writeFile(SNAPSHOT, text);
  assert.equal(text, await readFile(SNAPSHOT, "utf8"), "run this test with UPDATE_SNAPSHOTS=1 to rewrite the snapshot");
});

test("serves /docs without a token, with a policy that allows no external sources", TIMEOUT, async () => {
  await using it = await startFeaturePlane([referenceRoutes]);
  const page = await it.call<string>("GET", "/docs");
  assert.equal(page.status, 200);
  assert.equal(page.headers["content-type"], "text/html; charset=utf-8");
  const wanted = [...page.body.matchAll(/(?:href|src)="(\/docs\/[^"]+)"/g)].map(([, url]) => url ?? "");
  assert.ok(wanted.includes("/docs/app.js") && wanted.includes("/docs/style.css"));
  const files = await readdir(STATIC);
  for (const url of ["/docs", ...wanted, ...files.filter((file) => file !== "index.html").map((file) => `/docs/${file}`)]) {
    const { status, headers } = await it.call("GET", url);
    assert.equal(status, 200, url);
    const policy = String(headers["content-security-policy"]);
    assert.match(policy, /default-src 'none'/, url);
    assert.doesNotMatch(policy, /unsafe|https?:|\*/, url);
    assert.equal(headers["x-content-type-options"], "nosniff");
    assert.match(
      String(headers["content-type"]),
      url.endsWith(".css") ? /^text\/css/ : url.endsWith(".js") ? /^text\/javascript/ : /^text\/html/,
    );
  }
  assert.equal((await it.call("GET", "/docs/index.html")).status, 404);
  const post = await it.call("POST", "/docs/app.js");
  assert.deepEqual([post.status, post.headers["allow"]], [405, "GET, HEAD"]);
});

test("the API reference has no inline code, loads no external files and imports only existing files", TIMEOUT, async () => {
  const files = await readdir(STATIC);
  for (const file of files) {
    const text = await readFile(new URL(file, STATIC), "utf8");
    const addresses = [...text.matchAll(/https?:\/\/[^\s"'`)]+/g)].map(([address]) => address);
    assert.deepEqual(
      addresses.filter((address) => address !== "http://www.w3.org/2000/svg"),
      [],
      file,
    );
    assert.doesNotMatch(text, /innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(|new Function/, file);
    if (file.endsWith(".html")) assert.doesNotMatch(text, /<style|\sstyle=|\son\w+=|<script(?![^>]* src=)/, file);
    for (const [, imported = ""] of text.matchAll(/from "\.\/([^"]+)"/g))
      assert.ok(files.includes(imported), `${file} imports ${imported}`);
  }
});

test("the API reference does not store its token", TIMEOUT, async () => {
  for (const file of await readdir(STATIC)) {
    const text = await readFile(new URL(file, STATIC), "utf8");
    for (const [, stored = ""] of text.matchAll(/(?:localStorage|sessionStorage|document\.cookie|indexedDB)(.*)/g)) {
      assert.match(stored, /THEME_KEY/, file);
    }
  }
});

test("returns 400 for an unknown query parameter of /openapi.json", TIMEOUT, async () => {
  await using it = await startFeaturePlane([referenceRoutes]);
  assert.equal((await it.call("GET", "/openapi.json?x=1")).status, 400);
  assert.equal(routes.getOpenapi.access, "public");
});
