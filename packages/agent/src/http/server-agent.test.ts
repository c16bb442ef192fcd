import assert from "node:assert/strict";
import { execFileSync, spawnSync } from "node:child_process";
import { once } from "node:events";
import { readFileSync, writeFileSync } from "node:fs";
import { createServer as createHttp } from "node:http";
import { createServer } from "node:https";
import { type AddressInfo, connect as connectTcp } from "node:net";
import { join } from "node:path";
import { test, type TestContext } from "node:test";
import { systemClock } from "@roamfleet/clock";
import { readPresented } from "@roamfleet/protocol/authority";
import { ROBOT_ALPN_PROTOCOLS } from "@roamfleet/protocol/link";
import { WebSocketServer } from "ws";
import { connect } from "../link/connect.ts";
import { spawnChild } from "../runtime/spawn-child.ts";
import { temporaryDirectory } from "../testing/agent-rig.ts";
import { httpClient, readText } from "./request.ts";
import { serverAgent } from "./server-agent.ts";

const LIMIT = { timeout: 120_000 };
const SKIP = spawnSync("faketime", ["--version"]).error === undefined ? {} : { skip: "no faketime: apt-get install faketime" };
const YEAR_MS = 365 * 24 * 3_600_000;

/** Creates a certificate authority and a server certificate for 127.0.0.1 (or `name`). Valid for a year, `from_years` years from now. */
function certificate(directory: string, from_years = 0, name = "IP:127.0.0.1"): { ca: string; cert: string; key: string } {
  const at = (file: string): string => join(directory, file);
  const start = from_years === 0 ? [] : ["faketime", "-f", `${from_years > 0 ? "+" : ""}${from_years}y`];
  const openssl = (...args: string[]): void => {
    const [program = "", ...words] = [...start, "openssl", ...args];
    execFileSync(program, words, { stdio: "ignore", cwd: directory });
  };
  const key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"];
  writeFileSync(at("names"), `subjectAltName=${name}`);
  openssl("req", "-x509", ...key, "-keyout", "ca.key", "-out", "ca.pem", "-days", "365", "-subj", "/CN=authority");
  openssl("req", ...key, "-keyout", "key.pem", "-out", "request.pem", "-subj", "/CN=server");
  const signed = ["-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-days", "365", "-extfile", "names", "-out", "cert.pem"];
  openssl("x509", "-req", "-in", "request.pem", ...signed);
  return { ca: readFileSync(at("ca.pem"), "utf8"), cert: readFileSync(at("cert.pem"), "utf8"), key: readFileSync(at("key.pem"), "utf8") };
}

async function serve(
  t: TestContext,
  pair: { cert: string; key: string; maxVersion?: "TLSv1.2"; ALPNCallback?: (offer: { protocols: string[] }) => string | undefined },
): Promise<{ url: string; asked: string[] }> {
  const asked: string[] = [];
  const server = createServer(pair, (request, response) => {
    asked.push(request.url ?? "");
    response.end("hello");
  });
  const sockets = new WebSocketServer({ noServer: true });
  server.on("upgrade", (request, socket, head) => sockets.handleUpgrade(request, socket, head, () => {}));
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  t.after(() => server.close().closeAllConnections());
  t.after(() => sockets.clients.forEach((one) => one.terminate()));
  return { url: `https://127.0.0.1:${(server.address() as AddressInfo).port}`, asked };
}

/** Sends a request from a process whose clock is off by `clock_years`. Returns the body ("hello") or the error code. */
async function askFrom(t: TestContext, clock_years: number, url: string, { ca, least }: { ca: string; least: number }): Promise<string> {
  const script = `
    import { systemClock } from "@roamfleet/clock";
    import { httpClient, readText } from ${JSON.stringify(join(import.meta.dirname, "request.ts"))};
    import { serverAgent } from ${JSON.stringify(join(import.meta.dirname, "server-agent.ts"))};
    const [, url, ca, least] = process.argv;
    const agent = serverAgent(url, { ca, environment: {}, least: () => Number(least) });
    const http = httpClient(systemClock, undefined, { agent });
    http({ method: "GET", url, signal: new AbortController().signal }).then((answer) => readText(answer, 100)).then(
      (text) => process.stdout.write(text), (error) => process.stdout.write(error.code ?? error.message));`;
  const node = [process.execPath, "--input-type=module", "--eval", script, url, ca, String(least)];
  const argv = clock_years === 0 ? node : ["faketime", "-f", `${clock_years}y`, ...node];
  // Packages are resolved from this directory.
  const child = spawnChild(argv[0]!, argv.slice(1), { cwd: import.meta.dirname, stdio: ["ignore", "pipe", "inherit"] });
  t.after(() => child.kill("SIGKILL"));
  let said = "";
  child.stdout!.on("data", (chunk) => (said += String(chunk)));
  await once(child, "close");
  return said;
}

test("the TLS handshake offers HTTP/1.1, and after it the protocol name of robots", LIMIT, async (t) => {
  const { ca, ...pair } = certificate(temporaryDirectory(t));
  let offered: readonly string[] = [];
  const ALPNCallback = ({ protocols }: { protocols: string[] }): string | undefined => {
    offered = protocols;
    return protocols[0];
  };
  const { url } = await serve(t, { ...pair, ALPNCallback });
  assert.equal(await askFrom(t, 0, url, { ca, least: 0 }), "hello");
  assert.deepEqual(offered, ROBOT_ALPN_PROTOCOLS);
});

test("a robot whose clock is years behind skips only the check of the certificate's start date", { ...LIMIT, ...SKIP }, async (t) => {
  const [right, other, misnamed, expired] = [0, 0, 0, -3].map((from, index) =>
    certificate(temporaryDirectory(t), from, index === 2 ? "DNS:elsewhere" : undefined),
  ) as [ReturnType<typeof certificate>, ReturnType<typeof certificate>, ReturnType<typeof certificate>, ReturnType<typeof certificate>];
  const [good, named, old] = [await serve(t, right), await serve(t, misnamed), await serve(t, expired)];
  const now = Date.now();
  assert.equal(await askFrom(t, 0, good.url, { ca: right.ca, least: 0 }), "hello");
  assert.equal(await askFrom(t, -50, good.url, { ca: right.ca, least: now - YEAR_MS }), "hello");
  assert.equal(await askFrom(t, -50, good.url, { ca: other.ca, least: 0 }), "UNABLE_TO_GET_ISSUER_CERT_LOCALLY");
  assert.equal(await askFrom(t, -50, named.url, { ca: misnamed.ca, least: 0 }), "ERR_TLS_CERT_ALTNAME_INVALID");
  assert.equal(await askFrom(t, -50, old.url, { ca: expired.ca, least: now - YEAR_MS / 2 }), "CERT_HAS_EXPIRED");
  // The certificate is valid by the robot's clock, but it expired before `least`, the lower bound of the real time.
  assert.equal(await askFrom(t, -2.5, old.url, { ca: expired.ca, least: now - YEAR_MS / 2 }), "CERT_HAS_EXPIRED");
  assert.equal(await askFrom(t, 0, old.url, { ca: expired.ca, least: 0 }), "CERT_HAS_EXPIRED");
  assert.deepEqual([good.asked.length, named.asked.length, old.asked.length], [2, 0, 0], "nothing is sent to a server that is refused");
});

test("accepts a server that sends an expired certificate in addition to a valid chain", { ...LIMIT, ...SKIP }, async (t) => {
  const directory = temporaryDirectory(t);
  const { ca, ...pair } = certificate(directory);
  const openssl = (from: string, ...args: string[]): unknown =>
    execFileSync("faketime", ["-f", from, "openssl", ...args], { stdio: "ignore", cwd: directory });
  // The same key as the authority's, in a certificate that an unknown authority signed three years ago for one year.
  const key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"];
  openssl("-3y", "req", "-x509", ...key, "-keyout", "gone.key", "-out", "gone.pem", "-days", "365", "-subj", "/CN=gone");
  openssl("-3y", "req", "-new", "-key", "ca.key", "-out", "cross.csr", "-subj", "/CN=authority");
  writeFileSync(join(directory, "authority"), "basicConstraints=CA:TRUE");
  const signed = ["-CA", "gone.pem", "-CAkey", "gone.key", "-CAcreateserial", "-days", "365", "-extfile", "authority"];
  openssl("-3y", "x509", "-req", "-in", "cross.csr", ...signed, "-out", "cross.pem");
  const bundle = pair.cert + readFileSync(join(directory, "cross.pem"), "utf8");
  const { url } = await serve(t, { ...pair, cert: bundle });
  const least = Date.now() - YEAR_MS / 2;
  assert.equal(await askFrom(t, 0, url, { ca, least }), "hello");
  assert.equal(await askFrom(t, -50, url, { ca, least }), "hello");
});

test("refuses a server without TLS 1.3, which provides no channel binding", LIMIT, async (t) => {
  const { ca, ...pair } = certificate(temporaryDirectory(t));
  const { url } = await serve(t, { ...pair, maxVersion: "TLSv1.2" });
  assert.match(await askFrom(t, 0, url, { ca, least: 0 }), /PROTOCOL_VERSION/);
});

test("all connections to the server use HTTPS_PROXY, except for hosts in NO_PROXY", LIMIT, async (t) => {
  const { ca, ...pair } = certificate(temporaryDirectory(t));
  const { url } = await serve(t, pair);
  const tunnels: string[] = [];
  const proxy = createHttp();
  proxy.on("connect", (request, socket) => {
    tunnels.push(request.url ?? "");
    const [host, port] = (request.url ?? "").split(":");
    const onward = connectTcp(Number(port), host, () => socket.write("HTTP/1.1 200 OK\r\n\r\n"));
    onward.pipe(socket).pipe(onward);
    for (const end of [onward, socket]) end.on("error", () => {}).on("close", () => (onward.destroy(), socket.destroy()));
  });
  proxy.listen(0, "127.0.0.1");
  await once(proxy, "listening");
  t.after(() => proxy.close().closeAllConnections());
  const proxied = { HTTPS_PROXY: `http://127.0.0.1:${(proxy.address() as AddressInfo).port}` };
  const signal = new AbortController().signal;
  for (const [environment, count] of [
    [proxied, 3],
    [{ ...proxied, NO_PROXY: "127.0.0.1" }, 3],
  ] as const) {
    const agent = serverAgent(url, { ca, environment, least: () => 0 });
    const answer = await httpClient(systemClock, undefined, { agent })({ method: "GET", url, signal });
    assert.equal(await readText(answer, 100), "hello");
    await connect({ server: url, ca, agent, clock: systemClock, signal, on_open: (socket) => t.after(() => socket.terminate()) });
    assert.equal((await readPresented(url, { environment })).trusted, false);
    assert.equal(tunnels.length, count);
  }
});
