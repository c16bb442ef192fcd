import assert from "node:assert/strict";
import { hash } from "node:crypto";
import { once } from "node:events";
import { appendFile, rename, rm, symlink, writeFile } from "node:fs/promises";
import { connect } from "node:net";
import path from "node:path";
import { after, test } from "node:test";
import { text } from "node:stream/consumers";
import { until } from "@roamfleet/clock/testing";
import { installCommand } from "@roamfleet/protocol/install-command";
import type { HostedPackages } from "@roamfleet/protocol/routes";
import { startFeaturePlane } from "../testing/feature-plane.ts";
import { DOWNLOADS_MAX } from "./answer-file.ts";
import { packageRoutes } from "./index.ts";
import { createPackagesDirectory } from "./testing/packages-directory.ts";

const TIMEOUT = { timeout: 120_000 };
const packages = await createPackagesDirectory("0.3.0");
const it = await startFeaturePlane([packageRoutes], { settings: { packages: packages.directory } });
after(async () => {
  await it[Symbol.asyncDispose]();
  await packages[Symbol.asyncDispose]();
});
const HOST = { host: "fleet.test" };
const DEB = "/packages/roamfleet-agent_0.3.0_amd64.deb";

/** Returns the response to a raw request, because clients normalize paths such as /apt/../x. */
async function raw(target: string): Promise<string> {
  const socket = connect({ host: "127.0.0.1", port: Number(new URL(it.url).port), timeout: 30_000 });
  await once(socket, "connect");
  socket.write(`GET ${target} HTTP/1.1\r\nhost: fleet.test\r\nconnection: close\r\n\r\n`);
  return await text(socket);
}

test("serves the files of the directory and of its apt repository without a token", TIMEOUT, async () => {
  const types = {
    "/packages/manifest.json": "application/json; charset=utf-8",
    "/packages/SHA256SUMS": "text/plain; charset=utf-8",
    "/packages/SHA256SUMS.sig": "application/octet-stream",
    "/packages/signing-key.pem": "application/x-pem-file",
    [DEB]: "application/vnd.debian.binary-package",
    "/packages/roamfleet-agent_0.3.0_arm64.tar.gz": "application/gzip",
    "/apt/roamfleet.gpg": "application/octet-stream",
    "/apt/dists/stable/InRelease": "text/plain; charset=utf-8",
    "/apt/dists/stable/main/binary-arm64/Packages.gz": "application/gzip",
    "/apt/pool/main/r/roamfleet-agent/roamfleet-agent_0.3.0_amd64.deb": "application/vnd.debian.binary-package",
  };
  for (const [url, type] of Object.entries(types)) {
    const { status, headers } = await it.call("GET", url);
    assert.deepEqual([status, headers["content-type"], headers["accept-ranges"]], [200, type, "bytes"], url);
    assert.match(String(headers["etag"]), /^"[\w-]+"$/, url);
    assert.equal(headers["x-content-type-options"], "nosniff", url);
  }
  const bytes = Buffer.from(await (await fetch(`${it.url}${DEB}`)).arrayBuffer());
  const { files } = (await it.call<{ files: { name: string; sha256: string }[] }>("GET", "/packages/manifest.json")).body;
  assert.equal(hash("sha256", bytes), files.find(({ name }) => DEB.endsWith(name))?.sha256);
});

test("sends ranges, 304 for a known ETag, only the headers for HEAD, and 405 for other methods", TIMEOUT, async () => {
  const whole = Buffer.from(await (await fetch(`${it.url}${DEB}`)).arrayBuffer());
  const part = await fetch(`${it.url}${DEB}`, { headers: { range: "bytes=5-9" } });
  assert.deepEqual([part.status, part.headers.get("content-range")], [206, `bytes 5-9/${whole.length}`]);
  assert.deepEqual(Buffer.from(await part.arrayBuffer()), whole.subarray(5, 10));
  const etag = part.headers.get("etag") ?? "";
  assert.equal((await it.call("GET", DEB, { headers: { "if-none-match": etag } })).status, 304);
  assert.equal((await it.call("GET", DEB, { headers: { range: "bytes=5-9", "if-range": '"other"' } })).status, 200);
  assert.equal((await it.call("GET", DEB, { headers: { range: `bytes=${whole.length}-` } })).status, 416);
  const head = await fetch(`${it.url}${DEB}`, { method: "HEAD" });
  assert.deepEqual([head.status, head.headers.get("content-length"), (await head.text()).length], [200, String(whole.length), 0]);
  for (const url of [DEB, "/apt/dists/stable/InRelease", "/install.sh"]) {
    const { status, headers } = await it.call("POST", url);
    assert.deepEqual([status, headers["allow"]], [405, "GET, HEAD"], url);
  }
});

test("serves only public files, whatever the path", TIMEOUT, async () => {
  const { directory } = packages;
  await writeFile(path.join(directory, "../private.key"), "SECRET");
  await writeFile(path.join(directory, "signing-key.private"), "SECRET");
  await symlink("../../private.key", path.join(directory, "apt/dists/link"));
  await symlink("/etc/passwd", path.join(directory, "apt/pool/passwd"));
  await symlink("..", path.join(directory, "apt/pool/up"));
  // A changed manifest makes the server list the directory again.
  await appendFile(path.join(directory, "manifest.json"), "\n");
  const paths = [
    "/packages/signing-key.private",
    "/packages/../private.key",
    "/packages/%2e%2e/private.key",
    "/packages/..%2fprivate.key",
    "/packages/..%5cprivate.key",
    "/packages//etc/passwd",
    "/packages/%2fetc%2fpasswd",
    "/packages/manifest.json%00",
    "/packages/manifest.json/",
    "/packages/./manifest.json",
    "/packages/apt/roamfleet.gpg",
    "/packages/",
    "/packages/%ff",
    "/packages/constructor",
    "/packages/__proto__",
    "/apt/../manifest.json",
    "/apt/dists/../../../private.key",
    "/apt/dists/%2e%2e%2f%2e%2e%2f%2e%2e%2fprivate.key",
    "/apt/dists/link",
    "/apt/pool/passwd",
    "/apt/pool/up",
    "/apt/pool/up/manifest.json",
    "/apt/pool",
    "/apt/",
  ];
  for (const target of paths) {
    const answer = await raw(target);
    assert.match(answer, /^HTTP\/1\.1 404 /, target);
    assert.doesNotMatch(answer, /SECRET|root:/, target);
  }
});

test("the install script has the address of the request only if it is one of this server's configured names", TIMEOUT, async () => {
  const serverOf = (script: string): string | undefined => /^SERVER='(.*)'$/m.exec(script)?.[1];
  const script = async (host: string): Promise<string> => (await it.call<string>("GET", "/install.sh", { headers: { host } })).body;
  assert.equal(serverOf(await script("fleet.test")), "http://fleet.test");
  assert.equal(serverOf(await script("fleet.test:7600")), "http://fleet.test:7600");
  for (const host of ["evil.example", "fleet.test.evil.example", "fleet.test';id;'", "$(id)", "`id`", "fleet.test@evil.example"]) {
    const body = await script(host);
    assert.equal(serverOf(body), "", host);
    assert.ok(!body.includes(host), host);
  }
});

test("behind a proxy without configured names, the install script has no address", TIMEOUT, async () => {
  await using other = await startFeaturePlane([packageRoutes], { settings: { packages: packages.directory } });
  Object.assign(other.plane.hosts, { is_known: false });
  assert.match((await other.call<string>("GET", "/install.sh", { headers: HOST })).body, /^SERVER=''$/m);
});

test("GET /api/packages returns the version and the SHA-256 of the script that the same address serves", TIMEOUT, async () => {
  const { token } = await it.org({ role: "viewer" });
  const { status, body } = await it.call<{ data: HostedPackages }>("GET", "/api/packages", { token, headers: HOST });
  assert.equal(status, 200);
  const { install, ...about } = body.data;
  const commit = "0123456789abcdef0123456789abcdef01234567";
  assert.deepEqual(about, { version: "0.3.0", commit, built_at: "2026-11-23T12:00:00.000Z", architectures: ["amd64", "arm64"] });
  const script = (await it.call<string>("GET", "/install.sh", { headers: HOST })).body;
  assert.deepEqual(install, { server: "http://fleet.test", script_sha256: hash("sha256", script), ca_fingerprint: null });
  assert.equal((await it.call("GET", "/api/packages", { headers: HOST })).status, 401);
  assert.equal((await it.call("GET", "/api/packages?x=1", { token, headers: HOST })).status, 400);
  assert.equal((await it.call("GET", "/install.sh?x=1", { headers: HOST })).status, 400);
});

test("serves a replaced directory without a restart, and nothing while it is not valid", TIMEOUT, async () => {
  const version = async (): Promise<string | undefined> =>
    /^VERSION='(.*)'$/m.exec((await it.call<string>("GET", "/install.sh", { headers: HOST })).body)?.[1];
  await packages.rewrite("0.4.0");
  assert.equal(await version(), "0.4.0");
  assert.equal((await it.call("GET", DEB)).status, 404);
  const manifest = path.join(packages.directory, "manifest.json");
  for (const broken of [
    "",
    "[]",
    '{"version":"$(id)","files":[]}',
    '{"version":"0.4.0","files":[{"name":"../private.key"}]}',
    '{"version":"0.4.0","files":[{"name":"absent.deb"}]}',
  ]) {
    await writeFile(`${manifest}.new`, broken);
    await rename(`${manifest}.new`, manifest);
    assert.equal((await it.call("GET", "/install.sh", { headers: HOST })).status, 404, broken);
    assert.equal((await it.call("GET", "/packages/manifest.json")).status, 404, broken);
  }
  await rm(manifest);
  assert.equal((await it.call("GET", "/install.sh", { headers: HOST })).status, 404);
  await packages.rewrite("0.3.0");
  assert.equal(await version(), "0.3.0");
});

test("without packages the routes return 404 and state how to get packages", TIMEOUT, async () => {
  await using none = await startFeaturePlane([packageRoutes]);
  for (const url of ["/install.sh", DEB, "/apt/dists/stable/InRelease"]) {
    const { status, body } = await none.call("GET", url);
    assert.equal(status, 404, url);
    assert.match(body.error.message, /npm run package.*--packages/, url);
  }
  const { token } = await none.org({ role: "viewer" });
  const { body } = await none.call<{ data: HostedPackages }>("GET", "/api/packages", { token });
  assert.deepEqual(body.data, { version: null, commit: null, built_at: null, architectures: [], install: null });
});

test("refuses downloads beyond the maximum until others end", { timeout: 60_000 }, async () => {
  await writeFile(path.join(packages.directory, "apt/pool/large"), Buffer.alloc(16 * 1024 * 1024));
  await appendFile(path.join(packages.directory, "manifest.json"), "\n");
  const sockets = await Promise.all(
    Array.from({ length: DOWNLOADS_MAX }, async () => {
      const socket = connect({ host: "127.0.0.1", port: Number(new URL(it.url).port) });
      socket.write("GET /apt/pool/large HTTP/1.1\r\nhost: fleet.test\r\n\r\n");
      // Reads the first bytes only, so that the download stays open.
      await once(socket, "readable");
      return socket;
    }),
  );
  const refused = await it.call("GET", DEB);
  assert.deepEqual([refused.status, refused.headers["retry-after"]], [503, "10"]);
  for (const socket of sockets) socket.destroy();
  await until("a download to be accepted", async () => (await it.call("GET", DEB)).status === 200);
  // Each of these requests counts as a download until it ends: a whole file, a range, a known ETag, an error, and HEAD.
  const etag = String((await it.call("GET", DEB)).headers["etag"]);
  const requests = [{}, { range: "bytes=0-0" }, { "if-none-match": etag }, { range: "bytes=99999999-" }];
  for (let i = 0; i <= DOWNLOADS_MAX; i += 1) {
    const { status } = await it.call("GET", DEB, { headers: requests[i % requests.length] ?? {} });
    assert.notEqual(status, 503);
    await (await fetch(`${it.url}${DEB}`, { method: "HEAD" })).text();
  }
});

test("the install command verifies the script's SHA-256 if the server has its own certificate authority", () => {
  const parts = { server: "https://fleet.test", script_sha256: "ab".repeat(32), ca_fingerprint: null };
  assert.equal(
    installCommand(parts, "https://fleet.test", "rf_enroll_1"),
    "curl -fsSL https://fleet.test/install.sh | sudo sh -s -- --enroll-key rf_enroll_1",
  );
  assert.equal(
    installCommand({ ...parts, ca_fingerprint: "sha256:cd" }, "https://10.0.0.7:7600", "rf_enroll_1"),
    `curl -kfsSo install.sh https://10.0.0.7:7600/install.sh && echo "${"ab".repeat(32)}  install.sh" | sha256sum -c && ` +
      "sudo sh install.sh --enroll-key rf_enroll_1 --server https://10.0.0.7:7600 --ca-fingerprint sha256:cd",
  );
  assert.match(installCommand(parts, "https://[::1]:7600", "k"), /'https:\/\/\[::1\]:7600\/install\.sh'.* --server 'https:/);
});
