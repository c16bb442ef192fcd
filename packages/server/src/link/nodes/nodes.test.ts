import assert from "node:assert/strict";
import { once } from "node:events";
import { request as httpRequest } from "node:http";
import { type AddressInfo, createConnection, createServer, type Socket } from "node:net";
import { test } from "node:test";
import { connect, type TLSSocket } from "node:tls";
import { systemClock } from "@roamfleet/clock";
import { until } from "@roamfleet/clock/testing";
import { createTestDatabase } from "../../engines/db/testing/index.ts";
import type { Db } from "../../kernel/db.ts";
import { createLog } from "../../kernel/log.ts";
import { runCertificate } from "../../kernel/tls/certificate-authority.ts";
import type { KeyPair } from "../../kernel/tls/tls.ts";
import { sql } from "../../kernel/sql.ts";
import { UNKNOWN_HANDSHAKES_PER_NETWORK_MAX } from "./node-listener.ts";
import { openNodes, writeNodeAddress } from "./nodes.ts";
import { parseAddress } from "./connect-node.ts";

const LIMIT = { timeout: 60_000 };
const ANY = { listen: { host: "127.0.0.1", port: 0 }, address: undefined };

/** Starts a database with rows of nodes. `open` starts a node that listens. */
async function startRig() {
  const own = new AsyncDisposableStack();
  const database = own.use(await createTestDatabase());
  const db = await database.connect();
  let refused = 0;
  const lines: string[] = [];
  const log = createLog({ level: "warn", stream: { write: (line) => void lines.push(line) }, fold: false });
  const add = async (id: string): Promise<void> => {
    await db.run(sql`insert into node (id, epoch, beat, is_over, started_at) values (${id}, 1, 1, false, ${systemClock.now()})`);
  };
  const open = async (id: string) => {
    await add(id);
    const context = { db, clock: systemClock, log, node: { id, epoch: 1 }, onRefused: () => void (refused += 1) };
    const nodes = await openNodes(context, ANY);
    own.defer(() => nodes.close());
    return nodes;
  };
  return { db: db as Db, add, open, refused: () => refused, lines, [Symbol.asyncDispose]: () => own.disposeAsync() };
}

/** Returns the status of the response to a request, or undefined if the connection was closed. */
function ask(socket: TLSSocket): Promise<number | undefined> {
  return new Promise((resolve) => {
    const outgoing = httpRequest({ path: "/", createConnection: () => socket });
    outgoing.once("response", (response) => {
      response.resume();
      resolve(response.statusCode);
    });
    outgoing.once("error", () => resolve(undefined));
    outgoing.end();
  });
}

/** Connects without a certificate or with an unknown one, and returns the status of the response. */
async function strangerAsks(address: string, pair: Partial<KeyPair>): Promise<number | undefined> {
  const socket = connect({ ...parseAddress(address)!, ...pair, rejectUnauthorized: false });
  socket.on("error", () => {});
  const met = await Promise.race([once(socket, "secureConnect").then(() => true), once(socket, "close").then(() => false)]).catch(
    () => false,
  );
  try {
    return met ? await ask(socket) : undefined;
  } finally {
    socket.destroy();
  }
}

test("two nodes connect with mutual authentication, and one can forward an upgrade request", LIMIT, async () => {
  await using rig = await startRig();
  const [a, b] = [await rig.open("node_a"), await rig.open("node_b")];
  const [to_b] = await a.others();
  assert.deepEqual(
    (await a.others()).map(({ id }) => id),
    ["node_b"],
  );
  assert.equal(await ask(await a.connect(to_b!)), 404);
  const came = new Promise<string>((resolve) =>
    b.onUpgrade((request, socket) => {
      resolve(`${request.url} ${request.headers["sec-websocket-key"]}`);
      socket.end("HTTP/1.1 418 no\r\n\r\n");
    }),
  );
  const socket = await a.connect(to_b!);
  const outgoing = httpRequest({
    path: "/x",
    headers: { connection: "Upgrade", upgrade: "websocket", "sec-websocket-key": "k" },
    createConnection: () => socket,
  });
  outgoing.on("error", () => {});
  outgoing.end();
  assert.equal(await came, "/x k");
  socket.destroy();
  assert.equal(rig.refused(), 0);
});

test("closes connections that do not present the certificate of a living node, without a response", LIMIT, async () => {
  await using rig = await startRig();
  const [a, b] = [await rig.open("node_a"), await rig.open("node_b")];
  const [to_b] = await a.others();
  assert.equal(await strangerAsks(to_b!.address, {}), undefined);
  const stranger = await runCertificate(systemClock.now());
  assert.equal(await strangerAsks(to_b!.address, stranger), undefined);
  assert.equal(rig.refused(), 2);
  // The same certificate, now added to the database.
  await rig.add("node_c");
  await writeNodeAddress(rig.db, { id: "node_c", epoch: 1 }, { address: "127.0.0.1:1", tls_fingerprint: stranger.fingerprint });
  assert.equal(await strangerAsks(to_b!.address, stranger), 404);
  await rig.db.run(sql`update node set is_over = true where id = 'node_c'`);
  await until("the dead node's certificate is refused", async () => (await strangerAsks(to_b!.address, stranger)) === undefined);
  assert.equal(rig.refused(), 3);
  assert.equal(rig.lines.filter((line) => line.includes("refused connections to the port")).length, 1, "one line a minute");
  assert.deepEqual(
    (await b.others()).map(({ id }) => id),
    ["node_a"],
  );
});

test("closes connections above the limit of an address before their handshake", LIMIT, async (t) => {
  await using rig = await startRig();
  const [a] = [await rig.open("node_a"), await rig.open("node_b")];
  const [to_b] = await a.others();
  const sockets = Array.from({ length: UNKNOWN_HANDSHAKES_PER_NETWORK_MAX + 10 }, () =>
    // An address that no node uses.
    createConnection({ ...parseAddress(to_b!.address)!, localAddress: "127.0.0.9" }).on("error", () => {}),
  );
  t.after(() => sockets.forEach((socket) => socket.destroy()));
  await until("ten to be cut", () => sockets.filter(({ closed }) => closed).length >= 10);
  assert.equal(rig.refused(), 10);
  assert.equal(sockets.filter(({ closed }) => closed).length, 10);
  const socket = await a.connect(to_b!);
  assert.equal(await ask(socket), 404, "another node still connects");
});

test("a node's port refuses TLS before 1.3 and data that is not TLS", LIMIT, async () => {
  await using rig = await startRig();
  const a = await rig.open("node_a");
  await rig.open("node_b");
  const [to_b] = await a.others();
  const old = connect({ ...parseAddress(to_b!.address)!, rejectUnauthorized: false, maxVersion: "TLSv1.2" });
  const [error] = (await once(old, "error")) as [NodeJS.ErrnoException];
  assert.match(error.code ?? "", /PROTOCOL_VERSION/);
  const plain: Socket = createConnection(parseAddress(to_b!.address)!);
  plain.on("error", () => {});
  let answered = "";
  plain.on("data", (bytes: Buffer) => (answered += bytes.toString("latin1")));
  plain.write("GET / HTTP/1.1\r\nhost: x\r\n\r\n");
  await once(plain, "close");
  assert.doesNotMatch(answered, /HTTP/);
  await until("both are counted", () => rig.refused() === 2);
});

test("refuses to connect to a node with an unexpected certificate or without a listener", LIMIT, async () => {
  await using rig = await startRig();
  const a = await rig.open("node_a");
  await rig.open("node_b");
  const [to_b] = await a.others();
  const { fingerprint } = await runCertificate(systemClock.now());
  await assert.rejects(a.connect({ ...to_b!, tls_fingerprint: fingerprint }), /another certificate/);
  await assert.rejects(a.connect({ ...to_b!, address: "127.0.0.1:1" }), /ECONNREFUSED/);
  await assert.rejects(a.connect({ ...to_b!, address: "nowhere" }), /address is invalid/);
  const frozen = createServer().listen(0, "127.0.0.1");
  await once(frozen, "listening");
  const address = `127.0.0.1:${(frozen.address() as AddressInfo).port}`;
  await assert.rejects(a.connect({ ...to_b!, address }), /does not answer/);
  frozen.close();
});

test("a closed node is no longer listed, and its port is free", LIMIT, async () => {
  await using rig = await startRig();
  const [a, b] = [await rig.open("node_a"), await rig.open("node_b")];
  const [to_b] = await a.others();
  await b.close();
  await assert.rejects(a.connect(to_b!), /ECONNREFUSED/);
  await writeNodeAddress(rig.db, to_b!, undefined);
  assert.deepEqual(await a.others(), []);
});
