import assert from "node:assert/strict";
import { createHash, randomBytes, randomUUID } from "node:crypto";
import { once } from "node:events";
import { type ClientRequest, type IncomingMessage, request } from "node:http";
import { json } from "node:stream/consumers";
import { test, type TestContext } from "node:test";
import { until } from "@roamfleet/clock/testing";
import { spreadFetch } from "../harness/nodes.ts";
import { checkTime, provePromise } from "../harness/promise.ts";
import { pushBundle } from "../processes/app-bundle.ts";
import { FaultRig, skipUnlessFull } from "./fault-rig.ts";

const MIB = 1024 * 1024;
const BYTES = 64 * MIB;
/** Bytes acknowledged before the fault, and bytes in transit when the fault starts. Both are more than a segment of the store. */
const BEFORE = 20 * MIB;
const UNDER_WAY = 12 * MIB;
/** Time until an upload fails because the store is unreachable: a few attempts of ten seconds. */
const ERROR_MS = 60_000;
const RESUMED_MS = 15_000;
/** Uploads that start during the outage: more than a node's database connections. */
const BEGINNING = 40;
const WRITES = 200;
const LIMIT = { skip: skipUnlessFull(), timeout: 400_000 };

interface Fault {
  begin: (rig: FaultRig) => Promise<void> | void;
  end: (rig: FaultRig) => Promise<void> | void;
}

test("only uploads fail while S3 refuses connections, and they can be resumed afterwards", LIMIT, (t) =>
  withoutS3(t, { begin: ({ services }) => services.s3.down(), end: ({ services }) => services.s3.up() }),
);

test("only uploads fail while S3 resets connections, and they can be resumed afterwards", LIMIT, (t) =>
  withoutS3(t, {
    begin: ({ services }) => void (services.s3.fault = () => "reset"),
    end: ({ services }) => void (services.s3.fault = () => undefined),
  }),
);

test("only uploads fail while packets to S3 are lost, and they can be resumed afterwards", LIMIT, (t) =>
  withoutS3(t, {
    begin: ({ nodes, network }) => nodes.forEach(({ machine }) => machine.cut(network.addresses.s3)),
    end: ({ nodes, network }) => nodes.forEach(({ machine }) => machine.heal(network.addresses.s3)),
  }),
);

async function withoutS3(t: TestContext, { begin, end }: Fault): Promise<void> {
  await using rig = await FaultRig.start();
  try {
    const bytes = randomBytes(BYTES);
    const upload = await Upload.start(rig, bytes);
    const first = await upload.send(0, BEFORE);
    first.end();
    assert.equal((await first.answer()).status, 204);
    const due = await pushBundle(rig.api, "due", Buffer.from("due"), { kind: "file" });

    const cut = await upload.send(BEFORE, BYTES);
    await cut.write(UNDER_WAY);
    await begin(rig);
    const gone_at = performance.now();
    cut.end();
    requireUnavailable(await cut.answer());
    const error_ms = performance.now() - gone_at;
    await startDuringOutage(rig);
    await Promise.all(Array.from({ length: WRITES }, (_, n) => rig.ledger.post("/api/sites", { name: `Site ${n}` })));
    // Robots cannot download the artifact of this release yet.
    const deployments = await deployToAll(rig, due);
    assert.deepEqual(rig.ledger.refusals, [], "calls that need no store were refused");
    assert.equal(await rig.online(), rig.robots.length);

    await end(rig);
    const back_at = performance.now();
    const resumed_ms = (await upload.resume(BEFORE)) - back_at;
    assert.ok((await until("the artifact", () => upload.fetch())).equals(bytes), "the artifact has other bytes");
    for (const id of deployments)
      await until("a robot to have downloaded it", async () => (await rig.api.getDeployment({ params: { id } })).data.status === "applied");
    await rig.ledger.checkReplays();
    assert.equal(await rig.ledger.checkResources(), WRITES);
    t.diagnostic(`response after ${Math.round(error_ms)} ms`);
    checkTime(t, "the upload resumed", resumed_ms, RESUMED_MS);
    provePromise(t, 16, `${t.name}: error after ${Math.round(error_ms)} ms, resumed after ${Math.round(resumed_ms)} ms, 0 bytes lost`);
  } catch (error) {
    rig.explain(t);
    throw error;
  }
}

interface UploadReply {
  status: number;
  retry_after: string | undefined;
  message: string;
}

function requireUnavailable({ status, retry_after, message }: UploadReply): void {
  assert.deepEqual([status, retry_after], [503, "2"], message);
  assert.match(message, /the artifact store does not respond/);
}

/** Starts uploads while the store is unreachable. Each of them must get an error, and none may block a database connection. */
async function startDuringOutage(rig: FaultRig): Promise<void> {
  await Promise.all(
    Array.from({ length: BEGINNING }, async () => {
      const { id } = await release(rig, randomBytes(64));
      const answer = await spreadFetch(`${rig.url}/api/releases/${id}/artifact`, {
        method: "POST",
        signal: AbortSignal.timeout(ERROR_MS),
        headers: { ...headersOf(rig), "upload-length": "64" },
      });
      const { error } = (await answer.json()) as { error?: { message: string } };
      requireUnavailable({
        status: answer.status,
        retry_after: answer.headers.get("retry-after") ?? undefined,
        message: error?.message ?? "",
      });
    }),
  );
}

const release = async (rig: FaultRig, bytes: Buffer): Promise<{ id: string }> => {
  const artifact_sha256 = createHash("sha256").update(bytes).digest("hex");
  return (await rig.api.createRelease({ body: { tag: artifact_sha256, kind: "file", artifact_sha256, artifact_size: bytes.length } })).data;
};

async function deployToAll(rig: FaultRig, release_id: string): Promise<string[]> {
  const made = rig.robots.map(({ id }) =>
    rig.api.createDeployment({ body: { release: release_id, robot_id: id }, idempotency_key: randomUUID() }),
  );
  return (await Promise.all(made)).map(({ data }) => data.id);
}

const headersOf = ({ token }: FaultRig): Record<string, string> => ({ authorization: `Bearer ${token}`, "tus-resumable": "1.0.0" });

/** An upload by the tus protocol, whose requests the test sends one by one. */
class Upload {
  readonly #rig: FaultRig;
  readonly #url: string;
  readonly #bytes: Buffer;

  private constructor(rig: FaultRig, id: string, bytes: Buffer) {
    this.#rig = rig;
    this.#url = `${rig.url}/api/releases/${id}/artifact`;
    this.#bytes = bytes;
  }

  static async start(rig: FaultRig, bytes: Buffer): Promise<Upload> {
    const upload = new Upload(rig, (await release(rig, bytes)).id, bytes);
    const headers = { ...headersOf(rig), "upload-length": String(bytes.length) };
    assert.equal((await spreadFetch(upload.#url, { method: "POST", headers })).status, 201);
    return upload;
  }

  /**
   * Uploads the missing bytes like a client, and retries as long as nodes ask for it: each node detects the store's recovery separately.
   * Returns the start time of the request that succeeded.
   */
  async resume(acknowledged: number): Promise<number> {
    return await until(
      "the upload to resume",
      async () => {
        const offset = await this.#offset();
        if (offset === undefined) return undefined;
        assert.ok(offset >= acknowledged, `${offset} of ${acknowledged} acknowledged bytes are stored`);
        const since = performance.now();
        const rest = await this.send(offset, BYTES);
        rest.end();
        const response = await rest.answer();
        if (response.status === 204) return since;
        requireUnavailable(response);
        return undefined;
      },
      { deadline_ms: 2 * ERROR_MS },
    );
  }

  /** Returns the number of stored bytes; undefined while unknown. */
  async #offset(): Promise<number | undefined> {
    const signal = AbortSignal.timeout(ERROR_MS);
    const { status, headers } = await spreadFetch(this.#url, { method: "HEAD", headers: headersOf(this.#rig), signal });
    assert.ok([200, 423, 503].includes(status), `HEAD returned ${status}`);
    return status === 200 ? Number(headers.get("upload-offset")) : undefined;
  }

  /** Starts a request for the bytes from `start` to before `end`. */
  async send(start: number, end: number): Promise<Sending> {
    const sending = request(this.#url, {
      method: "PATCH",
      agent: false,
      headers: {
        ...headersOf(this.#rig),
        "content-type": "application/offset+octet-stream",
        "upload-offset": String(start),
        "content-length": end - start,
      },
    });
    return new Sending(sending, this.#bytes.subarray(start, end));
  }

  /** Returns the artifact; undefined while the store is unreachable. */
  async fetch(): Promise<Buffer | undefined> {
    const answer = await spreadFetch(this.#url, { headers: { authorization: `Bearer ${this.#rig.token}` } });
    const body = Buffer.from(await answer.arrayBuffer());
    return answer.status === 503 ? undefined : body;
  }
}

class Sending {
  readonly #request: ClientRequest;
  readonly #answered: Promise<UploadReply>;
  #left: Buffer;

  constructor(sending: ClientRequest, bytes: Buffer) {
    this.#request = sending;
    this.#left = bytes;
    this.#answered = once(sending, "response").then(([response]) => read(response as IncomingMessage));
    // Handle the rejection here: a caller that awaits the response still gets the error. It is no error if sending fails after the
    // response.
    this.#answered.catch(() => {});
    sending.on("error", () => {});
  }

  /** Writes this many bytes. Resolves when the socket has accepted them. */
  async write(count: number): Promise<void> {
    const chunk = this.#left.subarray(0, count);
    this.#left = this.#left.subarray(count);
    await new Promise<void>((resolve, reject) => this.#request.write(chunk, (error) => (error ? reject(error) : resolve())));
  }

  end(): void {
    this.#request.end(this.#left);
  }

  answer(): Promise<UploadReply> {
    return until("the upload to be answered", () => this.#answered, { deadline_ms: ERROR_MS });
  }
}

async function read(response: IncomingMessage): Promise<UploadReply> {
  const { statusCode: status = 0, headers } = response;
  const body = status === 204 ? {} : ((await json(response)) as { error?: { message: string } });
  return { status, retry_after: headers["retry-after"], message: body.error?.message ?? "" };
}
