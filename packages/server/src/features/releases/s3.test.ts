import assert from "node:assert/strict";
import { request } from "node:http";
import { after, before, beforeEach, test } from "node:test";
import { systemClock } from "@roamfleet/clock";
import { until } from "@roamfleet/clock/testing";
import { configOf, dockerArchive } from "@roamfleet/protocol/image-archive/testing";
import { type Blobs, s3Blobs } from "../../engines/blobs/index.ts";
import { S3ForTests } from "../../engines/blobs/testing/s3-server.ts";
import { silentLog } from "../../engines/db/testing/index.ts";
import { sql } from "../../kernel/sql.ts";
import { seedRobot } from "../testing/seed-robot.ts";
import { sha256, startReleaseRig } from "./testing/release-rig.ts";

const TIMEOUT = { timeout: 120_000 };
type Rig = Awaited<ReturnType<typeof startReleaseRig>>;

let s3: S3ForTests;
before(async () => void (s3 = await S3ForTests.start()));
after(() => s3[Symbol.asyncDispose]());
beforeEach(() => s3.reset());

/** Runs `body` with the routes of releases and an S3 store for artifacts. */
async function withS3(body: (rig: Rig, blobs: Blobs, restart: () => Promise<void>) => Promise<void>): Promise<void> {
  await using rig = await startReleaseRig();
  const place = s3.place();
  const opened: Blobs[] = [];
  const restart = async (): Promise<void> => {
    opened.push(await s3Blobs(place, { clock: systemClock, log: silentLog }));
    Object.assign(rig.plane, { blobs: opened.at(-1) });
  };
  await restart();
  try {
    await body(rig, opened[0] as Blobs, restart);
  } finally {
    for (const blobs of opened) await blobs.close();
  }
}

const tus = (rig: Rig, id: string, method: string, headers: Record<string, string> = {}, body?: Uint8Array) =>
  fetch(rig.url(id), {
    method,
    headers: { authorization: `Bearer ${rig.org.token}`, "tus-resumable": "1.0.0", ...headers },
    ...(body === undefined ? {} : { body: Uint8Array.from(body) }),
  });
const patch = (offset: number) => ({ "content-type": "application/offset+octet-stream", "upload-offset": String(offset) });

test("on S3, an image is stored in one request, and its robot downloads layers in ranges", TIMEOUT, () =>
  withS3(async (rig, blobs) => {
    const layers = [Buffer.alloc(9 * 1024 * 1024, "the base layer "), Buffer.from("the program")];
    const archive = dockerArchive(layers);
    const { id } = (await rig.create("v1", archive, { kind: "container_image" })).body.data;
    assert.equal((await rig.put(id, Uint8Array.from(archive))).status, 200);
    assert.deepEqual(await Array.fromAsync(blobs.list(""), ({ key }) => key), [`${rig.org.org_id}/${sha256(archive)}`]);
    const part = await rig.fetch(id, { range: "bytes=500-90000" });
    assert.ok(Buffer.from(await part.arrayBuffer()).equals(archive.subarray(500, 90_001)));
    const { robot_id } = await seedRobot(rig.plane, rig.org.org_id);
    const { db, clock } = rig.plane;
    await db.run(sql`
      insert into robot_app (org_id, robot_id, app, desired_release_id, updated_at)
      values (${rig.org.org_id}, ${robot_id}, 'main', ${id}, ${clock.now()})`);
    const authorization = `RobotSignature ${robot_id}:${clock.now().getTime()}:${"A".repeat(22)}::x`;
    const fetched = async (bytes: Buffer, headers: Record<string, string> = {}): Promise<Buffer> => {
      const url = new URL(`/agent/artifacts/${sha256(bytes)}`, rig.url(id));
      return Buffer.from(await (await fetch(url, { headers: { authorization, ...headers } })).arrayBuffer());
    };
    for (const bytes of [...layers, configOf(layers)]) assert.ok((await fetched(bytes)).equals(bytes));
    const [base = Buffer.alloc(0)] = layers;
    assert.ok((await fetched(base, { range: "bytes=9000000-" })).equals(base.subarray(9_000_000)));
  }),
);

test("on S3, an interrupted upload resumes at its offset on a restarted server", TIMEOUT, () =>
  withS3(async (rig, blobs, restart) => {
    const bytes = Buffer.alloc(20 * 1024 * 1024, "what a robot runs ");
    const { id } = (await rig.create("v1", bytes)).body.data;
    assert.equal((await tus(rig, id, "POST", { "upload-length": String(bytes.length) })).status, 201);
    const cut = request(rig.url(id), {
      method: "PATCH",
      headers: { authorization: `Bearer ${rig.org.token}`, "tus-resumable": "1.0.0", ...patch(0), "content-length": bytes.length },
    });
    cut.on("error", () => {});
    cut.write(bytes.subarray(0, 9_000_001));
    await until("the first part to be there", async () => (await blobs.uploaded(`${rig.org.org_id}/${id}`)) > 0);
    cut.destroy();
    await until("the cut to be noticed", async () => (await tus(rig, id, "HEAD")).status === 200);
    await restart();
    const offset = Number((await tus(rig, id, "HEAD")).headers.get("upload-offset"));
    assert.ok(offset >= 8 * 1024 * 1024 && offset <= 9_000_001, `${offset} bytes are kept`);
    assert.equal((await tus(rig, id, "PATCH", patch(offset), bytes.subarray(offset, offset + 5))).status, 204);
    assert.equal((await tus(rig, id, "PATCH", patch(offset + 5), bytes.subarray(offset + 5))).status, 204);
    assert.equal(await rig.state(id), "stored");
    assert.ok(Buffer.from(await (await rig.fetch(id)).arrayBuffer()).equals(bytes));
  }),
);

test("on S3: uploads and downloads return 503 while the store is down, and interrupted uploads resume", TIMEOUT, () =>
  withS3(async (rig) => {
    const bytes = Buffer.alloc(20 * 1024 * 1024, "what a robot runs ");
    const small = Buffer.from("stored before");
    const { id } = (await rig.create("v1", bytes)).body.data;
    const { id: stored } = (await rig.create("v0", small)).body.data;
    assert.equal((await rig.put(stored, Uint8Array.from(small))).status, 200);
    assert.equal((await tus(rig, id, "POST", { "upload-length": String(bytes.length) })).status, 201);
    assert.equal((await tus(rig, id, "PATCH", patch(0), bytes.subarray(0, 9_000_000))).status, 204);
    s3.fault = () => "reset";
    const responses = [
      await tus(rig, id, "PATCH", patch(9_000_000), bytes.subarray(9_000_000)),
      await tus(rig, id, "HEAD"),
      await tus(rig, id, "POST", { "upload-length": String(bytes.length) }),
      await tus(rig, id, "DELETE"),
      await rig.fetch(stored),
    ];
    assert.deepEqual(
      responses.map(({ status, headers }) => [status, headers.get("retry-after"), headers.get("tus-resumable")]),
      [...Array.from({ length: 4 }, () => [503, "2", "1.0.0"]), [503, "2", null]],
    );
    const refused = await rig.put(id, Uint8Array.from(bytes));
    assert.deepEqual([refused.status, refused.body.error.code], [503, "http_error"]);
    assert.match(refused.body.error.message, /^the artifact store does not respond; try again/);
    s3.fault = () => undefined;
    await until("the store to be found", async () => (await tus(rig, id, "HEAD")).status === 200);
    const offset = Number((await tus(rig, id, "HEAD")).headers.get("upload-offset"));
    assert.ok(offset >= 9_000_000, `${offset} bytes are kept`);
    assert.equal((await tus(rig, id, "PATCH", patch(offset), bytes.subarray(offset))).status, 204);
    assert.ok(Buffer.from(await (await rig.fetch(id)).arrayBuffer()).equals(bytes));
  }),
);
