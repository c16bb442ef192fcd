import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { createServer, type IncomingMessage, type RequestListener, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import path from "node:path";
import { after, before, test } from "node:test";
import { SimulatedClock } from "@roamfleet/clock";
import { createClient, Unreachable } from "./index.ts";

const SIZE = 3 * 1024 * 1024;
const content = randomBytes(SIZE);
let directory: string;
let file: string;
before(async () => {
  directory = await mkdtemp(path.join(tmpdir(), "roamfleet-upload-"));
  file = path.join(directory, "app.tar");
  await writeFile(file, content);
});
after(() => rm(directory, { recursive: true, force: true }));

async function withPeer(listener: RequestListener, work: (base_url: string, server: Server) => Promise<void>): Promise<void> {
  const server = createServer(listener);
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  try {
    await work(`http://127.0.0.1:${(server.address() as AddressInfo).port}`, server);
  } finally {
    server.closeAllConnections();
    server.close();
  }
}

/** Implements the parts of tus that an upload needs; `trouble` may respond to a PATCH itself or drop the connection. */
class Peer {
  received = Buffer.alloc(0);
  readonly calls: string[] = [];
  trouble: (request: IncomingMessage, response: ServerResponse) => boolean = () => false;

  readonly listener: RequestListener = (request, response) => {
    const { method = "", headers } = request;
    this.calls.push(method === "PATCH" ? `PATCH ${String(headers["upload-offset"])} ${headers["content-length"] ?? ""}` : method);
    if (this.trouble(request, response)) return;
    if (method === "GET") return void json(response, 200, { data: { artifact_state: "stored" } });
    if (method === "PATCH" && Number(headers["upload-offset"]) !== this.received.length)
      return void refuse(response, 409, "another offset");
    const state = this.received.length === SIZE ? "stored" : "awaiting_upload";
    const answer = (status: number): void =>
      void json(response, status, { data: { artifact_state: state } }, { "upload-offset": String(this.received.length) });
    if (method === "POST") return answer(201);
    request.on("data", (chunk: Buffer) => (this.received = Buffer.concat([this.received, chunk])));
    request.on("end", () => response.writeHead(204, { "upload-offset": String(this.received.length) }).end());
  };
}

const json = (response: ServerResponse, status: number, body: unknown, headers: Record<string, string> = {}) =>
  response.writeHead(status, { "content-type": "application/json", ...headers }).end(JSON.stringify(body));
const refuse = (response: ServerResponse, status: number, message: string, headers: Record<string, string> = {}) =>
  json(response, status, { error: { code: "http_error", message } }, headers);

test("an upload streams the file with its length and reports progress", { timeout: 120_000 }, async () => {
  const peer = new Peer();
  await withPeer(peer.listener, async (base_url) => {
    const progress: number[] = [];
    const answer = await createClient({ base_url, token: "t" }).upload({
      release_id: "rel_1",
      file,
      size: SIZE,
      on_progress: (done) => progress.push(done),
    });
    assert.equal(answer.data.artifact_state, "stored");
    assert.deepEqual(peer.calls, ["POST", `PATCH 0 ${SIZE}`, "GET"]);
    assert.ok(peer.received.equals(content));
    assert.deepEqual([progress.at(0), progress.at(-1)], [0, SIZE]);
    assert.ok(progress.length > 3);
  });
});

test("an upload throws the server's error if the server refuses the upload before the first byte", { timeout: 120_000 }, async () => {
  const peer = new Peer();
  peer.trouble = (_request, response) => {
    refuse(response, 413, "the quota of this org is used up", { connection: "close" });
    return true;
  };
  await withPeer(peer.listener, async (base_url) => {
    await assert.rejects(createClient({ base_url }).upload({ release_id: "rel_1", file, size: SIZE }), {
      name: "ApiError",
      status: 413,
      message: "the quota of this org is used up",
    });
    assert.deepEqual(peer.calls, ["POST"]);
  });
});

test("an upload resumes at the server's offset after a lost connection, 503 or 423", { timeout: 120_000 }, async () => {
  const peer = new Peer();
  peer.received = Buffer.from(content.subarray(0, 1_000_000));
  let patches = 0;
  peer.trouble = (request, response) => {
    if (request.method !== "PATCH") return false;
    patches += 1;
    if (patches === 1) {
      request.once("data", (chunk: Buffer) => {
        peer.received = Buffer.concat([peer.received, chunk]);
        request.socket.destroy();
      });
      return true;
    }
    if (patches > 3) return false;
    refuse(response, patches === 2 ? 503 : 423, "not now", { "retry-after": "0" });
    return true;
  };
  const waits: string[] = [];
  await withPeer(peer.listener, async (base_url) => {
    const progress: number[] = [];
    const client = createClient({ base_url, on_retry: ({ error }) => waits.push(error.message) });
    await client.upload({ release_id: "rel_1", file, size: SIZE, on_progress: (done) => progress.push(done) });
    assert.equal(progress[0], 1_000_000);
    assert.ok(peer.received.equals(content));
    assert.equal(peer.calls[1], `PATCH 1000000 ${SIZE - 1_000_000}`);
    assert.ok(Number(peer.calls.at(-2)?.split(" ")[1]) > 1_000_000);
    assert.equal(waits.length, 3);
    assert.match(waits[0] ?? "", /the connection was lost/);
  });
});

test("does not retry an upload that the server rejects as a wrong artifact", { timeout: 120_000 }, async () => {
  const peer = new Peer();
  peer.trouble = (request, response) => {
    if (request.method !== "PATCH") return false;
    request.resume().on("end", () => refuse(response, 400, "this is not the artifact"));
    return true;
  };
  await withPeer(peer.listener, async (base_url) => {
    await assert.rejects(createClient({ base_url }).upload({ release_id: "rel_1", file, size: SIZE }), { status: 400 });
    assert.equal(peer.calls.length, 2);
  });
});

test("an upload gives up after the server was unreachable for ten minutes", { timeout: 120_000 }, async () => {
  const clock = new SimulatedClock({ at: "2030-01-01T00:00:00Z" });
  const waits: number[] = [];
  const client = createClient({ base_url: "http://127.0.0.1:1", clock, on_retry: ({ wait_ms }) => waits.push(wait_ms) });
  let over = false;
  const uploaded = assert.rejects(client.upload({ release_id: "rel_1", file, size: SIZE }), Unreachable).finally(() => (over = true));
  while (!over) {
    await clock.advance({ seconds: 1 });
    await new Promise((resolve) => setImmediate(resolve));
  }
  await uploaded;
  assert.ok(waits.length > 30 && waits.length < 200, `${waits.length} tries`);
  assert.ok(Math.max(...waits) <= 15_000 && (waits[0] ?? 0) <= 500);
});

test("an upload throws Unreachable for a lost server and ENOENT for a missing file", { timeout: 120_000 }, async () => {
  const peer = new Peer();
  await withPeer(peer.listener, async (base_url, server) => {
    await assert.rejects(createClient({ base_url }).upload({ release_id: "rel_1", file: `${file}.gone`, size: SIZE }), {
      code: "ENOENT",
    });
    server.closeAllConnections();
    server.close();
    await assert.rejects(createClient({ base_url, retries: 0 }).upload({ release_id: "rel_1", file, size: SIZE }), Unreachable);
  });
});
