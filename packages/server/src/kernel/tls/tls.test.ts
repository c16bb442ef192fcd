import assert from "node:assert/strict";
import { X509Certificate } from "node:crypto";
import { once } from "node:events";
import { mkdtemp, readFile, rename, rm, stat, writeFile } from "node:fs/promises";
import { createServer, type Server } from "node:https";
import { connect as connectPlain, type AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import path from "node:path";
import { test, type TestContext } from "node:test";
import { connect, type SecureVersion, type TLSSocket } from "node:tls";
import { SimulatedClock, systemClock } from "@roamfleet/clock";
import { until } from "@roamfleet/clock/testing";
import { readPresented } from "@roamfleet/protocol/authority";
import packageJson from "../../../package.json" with { type: "json" };
import { createLog } from "../log.ts";
import { openAuthority, RELEASED } from "./certificate-authority.ts";
import { certificateFiles, readPair } from "./certificate-files.ts";
import { type Tls, TLS_OPTIONS, TlsError } from "./tls.ts";
import { ownCertificate } from "./own-certificate.ts";

const LIMIT = { timeout: 120_000 };
const NOW = new Date();
const DAY_MS = 86_400_000;

async function temporary(t: TestContext): Promise<string> {
  const directory = await mkdtemp(path.join(tmpdir(), "roamfleet-tls-"));
  t.after(() => rm(directory, { recursive: true, force: true }));
  return directory;
}

function logged(): { log: ReturnType<typeof createLog>; reasons: () => string[] } {
  const lines: string[] = [];
  const log = createLog({ level: "info", fold: false, stream: { write: (line: string) => void lines.push(line) } });
  return { log, reasons: () => lines.flatMap((line) => (JSON.parse(line) as { reason?: string }).reason ?? []) };
}

/** Starts an HTTPS server with the plane's options. */
async function listen(t: TestContext, tls: Tls): Promise<number> {
  const server: Server = createServer({ ...TLS_OPTIONS, ...tls.pair }, (_request, response) => void response.end("ok"));
  tls.follow(server);
  server.listen(0, "127.0.0.1");
  t.after(() => {
    tls.stop();
    server.close();
    server.closeAllConnections();
  });
  await once(server, "listening");
  return (server.address() as AddressInfo).port;
}

async function shakeHands(
  port: number,
  options: { ca?: string; servername?: string; maxVersion?: SecureVersion; ALPNProtocols?: string[] } = {},
): Promise<TLSSocket> {
  const socket = connect({ port, host: "127.0.0.1", rejectUnauthorized: options.ca !== undefined, ...options });
  await once(socket, "secureConnect");
  return socket;
}

/** Returns the serial number and names of the certificate that a new connection gets. */
async function shown(port: number): Promise<{ serial: string; names: string }> {
  const socket = await shakeHands(port);
  const { serialNumber, subjectaltname = "" } = socket.getPeerCertificate();
  socket.destroy();
  return { serial: serialNumber, names: subjectaltname };
}

test("creates a CA with a private key once, and issues certificates for the requested names", LIMIT, async (t) => {
  const directory = await temporary(t);
  const authority = await openAuthority(directory, NOW);
  const again = await openAuthority(directory, NOW);
  assert.equal(again.fingerprint, authority.fingerprint);
  assert.equal((await stat(path.join(directory, "tls", "ca-key.pem"))).mode & 0o777, 0o600);
  const ca = new X509Certificate(authority.pem);
  assert.ok(ca.ca);
  assert.ok(ca.validToDate.getTime() - NOW.getTime() >= 3_650 * DAY_MS);
  const { cert } = await again.issue(["fleet.example.org", "192.0.2.7", "2001:db8::7"], NOW);
  const leaf = new X509Certificate(cert);
  assert.ok(leaf.checkIssued(ca) && leaf.verify(ca.publicKey) && !leaf.ca);
  assert.equal(leaf.checkHost("fleet.example.org"), "fleet.example.org");
  assert.equal(leaf.checkHost("other.example.org"), undefined);
  for (const address of ["192.0.2.7", "2001:db8::7"]) assert.ok(leaf.checkIP(address), address);
  assert.equal(leaf.checkIP("192.0.2.8"), undefined);
});

test("recovers from a crash between writing CA key and certificate, and reports a wrong key", LIMIT, async (t) => {
  const directory = await temporary(t);
  const file = path.join(directory, "tls", "ca.pem");
  const key_file = path.join(directory, "tls", "ca-key.pem");
  const first = await openAuthority(directory, NOW);
  const key = await readFile(key_file, "utf8");
  await rm(file);
  const second = await openAuthority(directory, NOW);
  assert.equal(await readFile(key_file, "utf8"), key);
  assert.notEqual(second.fingerprint, first.fingerprint);
  await writeFile(file, first.pem);
  assert.equal((await openAuthority(directory, NOW)).fingerprint, first.fingerprint);
  await rm(key_file);
  await assert.rejects(openAuthority(directory, NOW), /the key .* is missing/);
  await openAuthority(path.join(directory, "other"), NOW);
  await writeFile(key_file, await readFile(path.join(directory, "other", "tls", "ca-key.pem")));
  await assert.rejects(openAuthority(directory, NOW), /is not the key of/);
});

test("clients that trust the CA connect by any name of the machine, but not with TLS 1.1", LIMIT, async (t) => {
  const data_directory = await temporary(t);
  const machine_names = (): string[] => ["vm", "127.0.0.1", "NOT A NAME"];
  const tls = await ownCertificate({
    data_directory,
    listen_host: "0.0.0.0",
    names: ["Fleet.example.org"],
    clock: systemClock,
    ...logged(),
    machine_names,
  });
  const port = await listen(t, tls);
  const ca = tls.authority!.pem;
  for (const servername of ["localhost", "vm", "fleet.example.org"]) (await shakeHands(port, { ca, servername })).destroy();
  await assert.rejects(shakeHands(port, { ca, servername: "evil.example.org" }), { code: "ERR_TLS_CERT_ALTNAME_INVALID" });
  const other = await openAuthority(path.join(data_directory, "other"), NOW);
  await assert.rejects(shakeHands(port, { ca: other.pem, servername: "vm" }), /certificate/);
  await assert.rejects(shakeHands(port, { ca, servername: "vm", maxVersion: "TLSv1.1" }));
  const presented = await readPresented(`https://127.0.0.1:${port}`);
  assert.deepEqual([presented.trusted, presented.authority?.fingerprint], [false, tls.authority!.fingerprint]);
});

test("negotiates HTTP/1.1, and refuses clients that only offer other protocols", LIMIT, async (t) => {
  const data_directory = await temporary(t);
  const tls = await ownCertificate({ data_directory, listen_host: "127.0.0.1", names: [], clock: systemClock, ...logged() });
  const port = await listen(t, tls);
  const ca = tls.authority!.pem;
  for (const [ALPNProtocols, chosen] of [
    [["h2", "http/1.1"], "http/1.1"],
    [undefined, false],
  ] as const) {
    const socket = await shakeHands(port, { ca, servername: "localhost", ...(ALPNProtocols && { ALPNProtocols: [...ALPNProtocols] }) });
    assert.equal(socket.alpnProtocol, chosen);
    socket.destroy();
  }
  await assert.rejects(shakeHands(port, { ca, servername: "localhost", ALPNProtocols: ["h2"] }), /no.application.protocol/i);
});

test("plain HTTP on the TLS port closes only that connection", LIMIT, async (t) => {
  const data_directory = await temporary(t);
  const tls = await ownCertificate({ data_directory, listen_host: "127.0.0.1", names: [], clock: systemClock, ...logged() });
  const port = await listen(t, tls);
  const plain = connectPlain(port, "127.0.0.1");
  let answer = "";
  plain.on("data", (bytes) => (answer += bytes.toString("latin1")));
  plain.on("error", () => {});
  plain.write("GET /healthz HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer rf_org_secret\r\n\r\n");
  await once(plain, "close");
  assert.ok(!answer.includes("200"), answer);
  (await shakeHands(port, { ca: tls.authority!.pem, servername: "localhost" })).destroy();
});

test("adds new names to the certificate without a restart, and renews it before it expires", LIMIT, async (t) => {
  const data_directory = await temporary(t);
  const clock = new SimulatedClock({ at: "2030-01-01T00:00:00Z" });
  const names = ["first"];
  const options = { data_directory, listen_host: "127.0.0.1", names: [], clock, ...logged(), look_every_ms: 3_600_000 };
  const tls = await ownCertificate({ ...options, machine_names: () => names });
  const port = await listen(t, tls);
  const first = await shown(port);
  assert.match(first.names, /DNS:first/);
  await clock.advance({ hours: 12 });
  assert.deepEqual(await shown(port), first);
  names.push("second");
  await clock.advance({ hours: 1 });
  await until("the second name", async () => (await shown(port)).names.includes("DNS:second"));
  const second = await shown(port);
  await clock.advance({ hours: 24 * 59 });
  assert.equal((await shown(port)).serial, second.serial);
  await clock.advance({ hours: 48 });
  await until("the renewal", async () => (await shown(port)).serial !== second.serial);
});

test("keeps an address in the certificate while its interface is down", LIMIT, async (t) => {
  const data_directory = await temporary(t);
  const clock = new SimulatedClock({ at: "2030-01-01T00:00:00Z" });
  const names = ["10.0.0.7", "first"];
  const tls = await ownCertificate({ data_directory, listen_host: "127.0.0.1", names: [], clock, ...logged(), machine_names: () => names });
  const port = await listen(t, tls);
  assert.match((await shown(port)).names, /IP Address:10\.0\.0\.7/);
  names.splice(0, 1, "second");
  await clock.advance({ minutes: 1 });
  await until("the second name", async () => (await shown(port)).names.includes("DNS:second"));
  assert.match((await shown(port)).names, /IP Address:10\.0\.0\.7/);
  names.push(...Array.from({ length: 70 }, (_, i) => `host-${i}`));
  await clock.advance({ minutes: 1 });
  await until("the last name", async () => (await shown(port)).names.includes("DNS:host-69"));
  assert.doesNotMatch((await shown(port)).names, /10\.0\.0\.7/, "beyond the bound only the present names stay");
});

test("renews a certificate when a clock change makes it invalid", LIMIT, async (t) => {
  const data_directory = await temporary(t);
  const clock = new SimulatedClock({ at: "2030-01-01T00:00:00Z" });
  const options = { data_directory, listen_host: "127.0.0.1", names: [], clock, ...logged(), machine_names: () => [] };
  const tls = await ownCertificate(options);
  const port = await listen(t, tls);
  const valid = (): boolean => {
    const { validFromDate, validToDate } = new X509Certificate(tls.pair.cert);
    return validFromDate <= clock.now() && clock.now() < validToDate;
  };
  for (const days of [1_000, -999, 200, -200]) {
    const before = await shown(port);
    clock.jump(days * DAY_MS);
    assert.equal(valid(), false, `${days} days`);
    await clock.advance({ seconds: 10 });
    await until("a certificate of this time", async () => valid() && (await shown(port)).serial !== before.serial);
  }
  const settled = await shown(port);
  await clock.advance({ minutes: 10 });
  assert.deepEqual(await shown(port), settled, "and not made again and again");
});

test("the CA and certificate start at the release date if the clock shows an earlier time", LIMIT, async (t) => {
  const data_directory = await temporary(t);
  const clock = new SimulatedClock({ at: "1970-01-01T00:05:00Z" });
  const options = { data_directory, listen_host: "127.0.0.1", names: [], clock, ...logged(), machine_names: () => [] };
  const tls = await ownCertificate(options);
  const port = await listen(t, tls);
  for (const pem of [tls.authority!.pem, tls.pair.cert]) {
    const { validFromDate, validToDate } = new X509Certificate(pem);
    assert.ok(validFromDate.getTime() >= RELEASED.not_before.getTime() - DAY_MS, validFromDate.toISOString());
    assert.ok(validToDate.getTime() > RELEASED.not_before.getTime() + 30 * DAY_MS);
  }
  const first = await shown(port);
  await clock.advance({ minutes: 10 });
  assert.deepEqual(await shown(port), first, "and not made again and again");
});

test("the error for an expired CA asks to check the clock first", LIMIT, async (t) => {
  const directory = await temporary(t);
  await openAuthority(directory, NOW);
  const later = new Date(NOW.getTime() + 4_000 * DAY_MS);
  await assert.rejects(
    openAuthority(directory, later),
    (error) => error instanceof TlsError && /expired on .* and the clock shows .*: set the clock/.test(error.message),
  );
});

test("the built-in release date was updated for the current version", () => {
  assert.equal(RELEASED.version, packageJson.version, "raise not_before to the date of the release, with the version");
  assert.ok(RELEASED.not_before < new Date());
});

test("keeps the certificate while the machine's addresses cannot be read", LIMIT, async (t) => {
  const data_directory = await temporary(t);
  const clock = new SimulatedClock({ at: "2030-01-01T00:00:00Z" });
  let failure: Error | undefined;
  const names = ["first"];
  const machine_names = (): string[] => {
    if (failure !== undefined) throw failure;
    return names;
  };
  const tls = await ownCertificate({ data_directory, listen_host: "127.0.0.1", names: [], clock, ...logged(), machine_names });
  const port = await listen(t, tls);
  const first = await shown(port);
  failure = new Error("too many open files");
  await clock.advance({ minutes: 1 });
  assert.deepEqual(await shown(port), first);
  failure = undefined;
  names.push("second");
  await clock.advance({ minutes: 1 });
  await until("the second name", async () => (await shown(port)).names.includes("DNS:second"));
});

interface Files {
  cert_file: string;
  key_file: string;
}

async function writePair(files: Files, { cert, key }: { cert: string; key: string }): Promise<void> {
  await writeFile(`${files.cert_file}.new`, cert);
  await writeFile(`${files.key_file}.new`, key);
  await rename(`${files.cert_file}.new`, files.cert_file);
  await rename(`${files.key_file}.new`, files.key_file);
}

test("new connections use changed certificate files, and an invalid pair is ignored", LIMIT, async (t) => {
  const directory = await temporary(t);
  const authority = await openAuthority(directory, NOW);
  const files = { cert_file: path.join(directory, "server.pem"), key_file: path.join(directory, "server-key.pem") };
  await writePair(files, await authority.issue(["localhost"], NOW));
  const { log, reasons } = logged();
  const tls = await certificateFiles(files, { clock: systemClock, log });
  const port = await listen(t, tls);
  const first = await shown(port);
  const open = await shakeHands(port);
  await writePair(files, await authority.issue(["localhost"], NOW));
  await until("the new certificate", async () => (await shown(port)).serial !== first.serial);
  const second = await shown(port);
  open.write("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
  assert.match(String((await once(open, "data"))[0]), /^HTTP\/1.1 200/);
  open.destroy();

  // A read while the file is being written may first log another error.
  await writeFile(files.key_file, (await authority.issue(["localhost"], NOW)).key);
  await until("the complaint", () => reasons().at(-1)?.includes("is not the private key of"));
  assert.deepEqual(await shown(port), second);
  await writeFile(files.cert_file, "no certificate");
  await until("the second complaint", () => reasons().at(-1)?.includes("contains no certificate"));
  assert.deepEqual(await shown(port), second);
  await writePair(files, await authority.issue(["localhost"], NOW));
  await until("the third certificate", async () => (await shown(port)).serial !== second.serial);
});

test("detects changed certificate files by polling if there are no file system events", LIMIT, async (t) => {
  const directory = await temporary(t);
  const authority = await openAuthority(directory, NOW);
  const real = path.join(directory, "real");
  const { mkdir, symlink } = await import("node:fs/promises");
  await mkdir(real);
  const held = { cert_file: path.join(real, "c.pem"), key_file: path.join(real, "k.pem") };
  await writePair(held, await authority.issue(["localhost"], NOW));
  // The files are symlinks: a change of their targets causes no event in the watched directory.
  await mkdir(path.join(directory, "links"));
  const files = { cert_file: path.join(directory, "links", "c.pem"), key_file: path.join(directory, "links", "k.pem") };
  await symlink(held.cert_file, files.cert_file);
  await symlink(held.key_file, files.key_file);
  const clock = new SimulatedClock({ at: "2030-01-01T00:00:00Z" });
  const tls = await certificateFiles(files, { clock, log: logged().log });
  const port = await listen(t, tls);
  const first = await shown(port);
  await writePair(held, await authority.issue(["localhost"], NOW));
  await clock.advance({ seconds: 11 });
  await until("the new certificate", async () => (await shown(port)).serial !== first.serial);
});

test("names the certificate or key file that is missing, invalid or does not match", LIMIT, async (t) => {
  const directory = await temporary(t);
  const authority = await openAuthority(directory, NOW);
  const files = { cert_file: path.join(directory, "c.pem"), key_file: path.join(directory, "k.pem") };
  await assert.rejects(readPair(files), { code: "ENOENT" });
  const pair = await authority.issue(["localhost"], NOW);
  await writePair(files, { ...pair, key: (await authority.issue(["localhost"], NOW)).key });
  await assert.rejects(readPair(files), /k\.pem is not the private key of .*c\.pem/);
  await writePair(files, { ...pair, key: "nothing" });
  await assert.rejects(readPair(files), /k\.pem contains no private key/);
  await writePair(files, { ...pair, cert: pair.key });
  await assert.rejects(readPair(files), /c\.pem contains no certificate/);
});
