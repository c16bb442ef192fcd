import { connect, type Socket } from "node:net";
import { connect as connectTls } from "node:tls";
import { LINK_SUBPROTOCOL } from "@roamfleet/protocol/link";
import { LINK_PATH } from "@roamfleet/protocol/paths";
import { clientHello } from "../../packages/server/src/kernel/tls/testing/client-hello.ts";
import type { SlowOrder, SlowReport } from "./slow-clients.ts";

const DRIP_MS = 1_000;
/** Number of groups of clients. The groups send their single bytes at different times. */
const DRIP_PHASES = 50;

/** What a slow client sends first, and whether it then sends nothing or single bytes. */
interface SlowClient {
  first: string | Buffer;
  drips?: boolean;
  /** True: `first` is sent after the TLS handshake. Otherwise `first` is sent as raw bytes, even to a server with TLS. */
  after_handshake?: boolean;
}

const order = JSON.parse(process.argv[2] ?? "") as SlowOrder;
const open = new Set<Socket>();
const dripping = new Set<Socket>();
const report: SlowReport = {};

function clients({ token, upload_path }: SlowOrder): Record<string, SlowClient> {
  const head = (method: string, path: string, more: string): string =>
    `${method} ${path} HTTP/1.1\r\nhost: slow\r\nauthorization: Bearer ${token}\r\n${more}`;
  const json = head("POST", "/api/sites", "content-type: application/json\r\ncontent-length: 500\r\n\r\n");
  const upload = head("PUT", upload_path, "content-type: application/octet-stream\r\ncontent-length: 50000000\r\n\r\n");
  const upgrade = `upgrade: websocket\r\nconnection: upgrade\r\nsec-websocket-version: 13\r\nsec-websocket-key: ${Buffer.alloc(16).toString("base64")}\r\nsec-websocket-protocol: ${LINK_SUBPROTOCOL}\r\n\r\n`;
  return {
    "sends nothing": { first: "" },
    "half a request line": { first: "GET /api/si" },
    "half a header": { first: "GET /api/sites HTTP/1.1\r\nhost: slow\r\nauthoriz" },
    "headers by the byte": { first: "GET /api/sites HTTP/1.1\r\nx-slow: ", drips: true },
    "half a body": { first: `${json}{"name":` },
    "half a body without a token": { first: json.replace(token, "none") },
    "half a body to a path that is none": { first: 'POST /%zz HTTP/1.1\r\nhost: slow\r\ncontent-length: 50\r\n\r\n{"na' },
    "a body by the byte": { first: json, drips: true },
    "an endless chunk by the byte": {
      first: head("POST", "/api/sites", "content-type: application/json\r\ntransfer-encoding: chunked\r\n\r\nfffff\r\n"),
      drips: true,
    },
    "a promised body": { first: head("POST", "/api/sites", "expect: 100-continue\r\ncontent-length: 10\r\n\r\n") },
    "half an upload": { first: `${upload}${"x".repeat(50_000)}` },
    "an upload by the byte": { first: upload, drips: true },
    "a link without a hello": { first: head("GET", LINK_PATH, upgrade) },
    "a link whose hello drips": {
      first: Buffer.concat([Buffer.from(head("GET", LINK_PATH, upgrade)), Buffer.of(0x82, 0xfe)]),
      drips: true,
    },
    "a link that breaks the protocol and stays": {
      first: Buffer.concat([Buffer.from(head("GET", LINK_PATH, upgrade)), Buffer.of(0x81, 0x80, 0, 0, 0, 0)]),
    },
  };
}

async function tlsClients(of: SlowOrder): Promise<Record<string, SlowClient>> {
  const hello = await clientHello();
  const plain = clients(of);
  return {
    "sends nothing": { first: "" },
    "half a client hello": { first: hello.subarray(0, 100) },
    "a client hello by the byte": { first: hello.subarray(0, 20), drips: true },
    "a client hello and no more": { first: hello },
    "plain HTTP": { first: "GET / HTTP/1.1\r\n\r\n" },
    ...Object.fromEntries(
      ["sends nothing", "half a header", "headers by the byte", "half a body", "a link without a hello"].map((name) => [
        `${name}, in TLS`,
        { ...plain[name]!, after_handshake: true },
      ]),
    ),
  };
}

/** Opens one client. It never closes its own end, whatever the server does. */
async function openOne(name: string, { first, drips = false, after_handshake = false }: SlowClient): Promise<void> {
  const began_at = performance.now();
  const address = { host: order.host, port: order.port, allowHalfOpen: true };
  const socket = after_handshake ? connectTls({ ...address, ca: order.ca }) : connect(address);
  const kind = (report[name] ??= { count: 0, not_opened: 0, longest_ms: 0, answers: [] });
  kind.count += 1;
  let is_open = true;
  let answer = "";
  const { promise: settled, resolve: settle } = Promise.withResolvers<void>();
  const ended = (): void => {
    if (!is_open) return;
    is_open = false;
    kind.longest_ms = Math.max(kind.longest_ms, Math.round(performance.now() - began_at));
    const status = /^HTTP\/1\.1 (\d{3})/.exec(answer)?.[1] ?? "closed";
    if (!kind.answers.includes(status)) kind.answers.push(status);
    open.delete(socket);
    dripping.delete(socket);
    settle();
  };
  socket.on("data", (chunk: Buffer) => {
    if (answer.length < 20) answer += chunk.toString("latin1");
  });
  for (const event of ["end", "close"] as const) socket.on(event, ended);
  socket.on("error", () => {});
  socket.once(after_handshake ? "secureConnect" : "connect", () => {
    open.add(socket);
    if (first.length > 0) socket.write(first);
    if (drips) dripping.add(socket);
    settle();
  });
  await settled;
  if (!open.has(socket) && is_open) kind.not_opened += 1;
}

async function main(): Promise<void> {
  const all = Object.entries(order.ca === undefined ? clients(order) : await tlsClients(order));
  let phase = 0;
  const drip = setInterval(() => {
    phase = (phase + 1) % DRIP_PHASES;
    let number = 0;
    for (const socket of dripping) if ((number += 1) % DRIP_PHASES === phase) socket.write("a");
  }, DRIP_MS / DRIP_PHASES);
  const began_at = performance.now();
  const opening: Promise<void>[] = [];
  for (let number = 0; number < order.count; number += 1) {
    const wait_ms = began_at + (number * 1_000) / order.per_second - performance.now();
    if (wait_ms > 1) await new Promise((resolve) => setTimeout(resolve, wait_ms));
    const [name, client] = all[number % all.length]!;
    opening.push(openOne(name, client));
  }
  await Promise.all(opening);
  process.send?.({ open: open.size });
  while (open.size > 0) await new Promise((resolve) => setTimeout(resolve, 50));
  clearInterval(drip);
  process.send?.({ report });
  // The sockets of this process stay open until this message.
  process.once("message", () => process.exit(0));
}

await main();
