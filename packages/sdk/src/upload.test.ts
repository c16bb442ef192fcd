import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { createServer, type RequestListener, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import path from "node:path";
import { after, before, test } from "node:test";
import { createClient, Unreachable } from "./index.ts";

const SIZE = 3 * 1024 * 1024;
const content = randomBytes(SIZE);
let directory: string;
let file: string;
before(async () => {
  directory = await mkdtemp(path.join(tmpdir(), "robofleet-upload-"));
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

test("an upload streams the file with its length and reports progress", { timeout: 30_000 }, async () => {
  let received = Buffer.alloc(0);
  let length: string | undefined;
  const listener: RequestListener = (request, response) => {
    const chunks: Buffer[] = [];
    length = request.headers["content-length"];
    request.on("data", (chunk: Buffer) => chunks.push(chunk));
    request.on("end", () => {
      received = Buffer.concat(chunks);
      response.writeHead(200, { "content-type": "application/json" }).end('{"data":{"artifact_state":"stored"}}');
    });
  };
  await withPeer(listener, async (base_url) => {
    const progress: number[] = [];
    const answer = await createClient({ base_url, token: "t" }).upload({
      release_id: "rel_1",
      file,
      size: SIZE,
      on_progress: (done) => progress.push(done),
    });
    assert.equal(answer.data.artifact_state, "stored");
    assert.equal(length, String(SIZE));
    assert.ok(received.equals(content));
    assert.equal(progress.at(-1), SIZE);
    assert.ok(progress.length > 3);
  });
});

test("a refusal before the first byte is the answer, though the server reads no more", { timeout: 30_000 }, async () => {
  const listener: RequestListener = (_request, response) => {
    response
      .writeHead(413, { "content-type": "application/json", connection: "close" })
      .end('{"error":{"code":"http_error","message":"the quota of this org is used up"}}');
  };
  await withPeer(listener, async (base_url) => {
    await assert.rejects(createClient({ base_url }).upload({ release_id: "rel_1", file, size: SIZE }), {
      name: "ApiError",
      status: 413,
      message: "the quota of this org is used up",
    });
  });
});

test("an upload that is cut begins again", { timeout: 30_000 }, async () => {
  let tries = 0;
  const listener: RequestListener = (request, response) => {
    tries += 1;
    if (tries === 1) request.once("data", () => request.socket.destroy());
    else request.resume().on("end", () => response.writeHead(200, { "content-type": "application/json" }).end('{"data":{}}'));
  };
  await withPeer(listener, async (base_url) => {
    await createClient({ base_url }).upload({ release_id: "rel_1", file, size: SIZE });
    assert.equal(tries, 2);
  });
});

test("a server that is gone is Unreachable, a file that is gone is its own error", { timeout: 30_000 }, async () => {
  await withPeer(
    () => {},
    async (base_url, server) => {
      await assert.rejects(createClient({ base_url }).upload({ release_id: "rel_1", file: `${file}.gone`, size: SIZE }), {
        code: "ENOENT",
      });
      server.closeAllConnections();
      server.close();
      await assert.rejects(createClient({ base_url, retries: 0 }).upload({ release_id: "rel_1", file, size: SIZE }), Unreachable);
    },
  );
});
