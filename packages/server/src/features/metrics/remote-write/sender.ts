import { ChunkError, decodeChunk, type Series } from "@roamfleet/protocol/link";
import type { Plane } from "../../../context.ts";
import type { MetricEndpoint } from "../../../metric-endpoints.ts";
import { type Background, background } from "../../../kernel/background.ts";
import { printable } from "../../../kernel/fault.ts";
import { retryBisected } from "../../../kernel/isolate-failures.ts";
import { exchange } from "../http-exchange.ts";
import { claimShards, createShards, listUnsent, putSent, readBacklog, releaseShard, type SentPosition, type UnsentRow } from "./store.ts";
import { encodeWriteRequest, type Origin, WRITE_HEADERS } from "./write-request.ts";

const LOOK_EVERY_MS = 5_000;
const MEASURE_EVERY_MS = 60_000;
/** Shards that a node serves concurrently, with one request each. */
const LANES = 4;
/** Longer than a request. After a crash, another node sends the chunks again when the lease has expired. */
const LEASE_MS = 60_000;
const REQUEST_TIMEOUT_MS = 30_000;
/** A request ends with the chunk that reaches this number of samples. A chunk has at most 10,000. */
const REQUEST_SAMPLES = 5_000;
/** Bytes of a response that are read for the log. */
const RESPONSE_BYTES_MAX = 2_048;
const RETRY_MS = 5_000;
const RETRY_MS_MAX = 60_000;
/** Maximum delay that the receiver may request with Retry-After. */
const RETRY_AFTER_MS_MAX = 600_000;
/** Statuses that refuse the content of a request. All others, such as 404 and redirects, are retried: the operator can repair them. */
const REFUSALS: ReadonlySet<number> = new Set([400, 409, 413, 422]);

interface OutgoingChunk {
  origin: Origin;
  number: number;
  series: Series[];
  sample_count: number;
  /** Times of the first and last sample. */
  first_at: number;
  last_at: number;
}

/** The receiver refuses the content of a request. */
class Refused extends Error {}

/** A request failed for another reason and must be retried. */
class Failed extends Error {
  readonly retry_after_ms: number;
  constructor(message: string, retry_after_ms = 0) {
    super(message);
    this.retry_after_ms = retry_after_ms;
  }
}

/** Starts sending stored samples to the receiver of the settings, if there is one. */
export function startRemoteWrite(plane: Plane): { stop(): Promise<void> }[] {
  const receiver = plane.settings.metric_endpoints?.write;
  if (receiver === undefined) return [];
  const { clock, db, log, metrics } = plane;
  const stopping = new AbortController();
  let failures = 0;
  let has_shards = false;
  let not_before_ms = -Infinity;
  const onFailed = (error: Failed): void => {
    if (stopping.signal.aborted) return;
    failures += 1;
    metrics.remote_write_failures.inc();
    const delay_ms = Math.max(error.retry_after_ms, Math.min(RETRY_MS_MAX, RETRY_MS * 2 ** (failures - 1)));
    not_before_ms = clock.monotonic() + delay_ms;
    log.warn({ reason: error.message, retry_seconds: delay_ms / 1_000 }, "remote write failed and will be retried");
  };
  const context = { receiver, signal: stopping.signal };
  const loop = background(plane, "remote write", LOOK_EVERY_MS, async () => {
    if (stopping.signal.aborted || clock.monotonic() < not_before_ms) return false;
    if (!has_shards) await createShards(db);
    has_shards = true;
    const now = clock.now();
    const leased_until = new Date(now.getTime() + LEASE_MS);
    // After a failure, one request shows whether the receiver works again.
    const shards = await claimShards(db, { now, leased_until, limit: failures === 0 ? LANES : 1 });
    const results = await Promise.allSettled(
      shards.map(async (shard) => {
        try {
          await serveShard(plane, context, shard);
        } finally {
          await releaseShard(db, shard, leased_until);
        }
      }),
    );
    const errors = results.flatMap((result) => (result.status === "rejected" ? [result.reason as unknown] : []));
    const failed = errors.find((error) => error instanceof Failed);
    if (failed !== undefined) onFailed(failed);
    else if (shards.length > 0) failures = 0;
    const other = errors.find((error) => error instanceof Error && !(error instanceof Failed));
    if (other instanceof Error) throw other;
    return failed === undefined && shards.length > 0;
  });
  loop.wake();
  return [{ stop: () => (stopping.abort(), loop.stop()) }, startMeasuring(plane)];
}

function startMeasuring({ db, clock, log, metrics }: Plane): Background {
  const work = background({ clock, log }, "remote write backlog", MEASURE_EVERY_MS, async () => {
    const { chunks, oldest_at } = await readBacklog(db);
    metrics.remote_write_backlog.set(chunks);
    metrics.remote_write_age.set(oldest_at === null ? 0 : Math.max(0, (clock.now().getTime() - oldest_at.getTime()) / 1_000));
  });
  work.wake();
  return work;
}

interface SendContext {
  receiver: MetricEndpoint;
  signal: AbortSignal;
}

/** Sends the chunks of one turn. Throws Failed when the receiver does not accept a request now. */
async function serveShard(plane: Plane, context: SendContext, shard: number): Promise<void> {
  const rows = await listUnsent(plane.db, shard);
  const idle = rows.filter(({ number }) => number === null).map(({ org_id, robot_id }) => ({ org_id, robot_id, number: 0 }));
  if (idle.length > 0) await putSent(plane.db, idle, plane.clock.now());
  let batch: OutgoingChunk[] = [];
  const flush = async (): Promise<void> => {
    if (batch.length > 0) await sendBatch(plane, context, batch);
    batch = [];
  };
  for (const one of rows) {
    const chunk = decoded(plane, one);
    if (chunk === undefined) continue;
    // Prometheus drops older samples of the same request without an error, unlike those of a later request.
    const before = batch.findLast(({ origin }) => origin.robot_id === one.robot_id);
    if (before !== undefined && chunk.first_at <= before.last_at) await flush();
    batch.push(chunk);
    if (countSamples(batch) >= REQUEST_SAMPLES) await flush();
  }
  await flush();
}

/** Decodes a chunk. A damaged one becomes an empty one, so that the others are sent. */
function decoded({ log }: Plane, { number, chunk, ...origin }: UnsentRow): OutgoingChunk | undefined {
  if (number === null || chunk === null) return undefined;
  try {
    const series = decodeChunk(chunk);
    const times = series.flatMap((of) => of.times);
    const [first_at, last_at] = times.reduce(([min, max], time) => [Math.min(min, time), Math.max(max, time)], [Infinity, -Infinity]);
    return { origin, number, series, sample_count: times.length, first_at, last_at };
  } catch (error) {
    if (!(error instanceof ChunkError)) throw error;
    log.error({ err: error, robot_id: origin.robot_id }, "a stored chunk of samples could not be read");
    return { origin, number, series: [], sample_count: 0, first_at: Infinity, last_at: -Infinity };
  }
}

/**
 * Sends chunks in one request and stores the positions. Prometheus refuses a whole request because of one sample, so a refused request is
 * split until the refused chunks are found. Those are counted and not sent again.
 */
async function sendBatch(plane: Plane, context: SendContext, batch: readonly OutgoingChunk[]): Promise<void> {
  const { metrics, log, db, clock } = plane;
  const finished = new Set<OutgoingChunk>();
  const refused: OutgoingChunk[] = [];
  const reasons: string[] = [];
  let failure: { error: unknown } | undefined;
  await retryBisected(
    batch,
    async (some) => {
      if (failure !== undefined) throw failure.error;
      await post(plane, context, some);
      for (const chunk of some) finished.add(chunk);
      metrics.remote_write_samples.inc(countSamples(some));
    },
    {
      affectsAll: (error) => !(error instanceof Refused),
      failed: (some, error) => {
        if (!(error instanceof Refused)) return void (failure ??= { error });
        reasons.push(error.message);
        for (const chunk of some) {
          finished.add(chunk);
          refused.push(chunk);
        }
      },
    },
  );
  if (refused.length > 0) {
    const [samples, robot_ids] = [countSamples(refused), [...new Set(refused.map(({ origin }) => origin.robot_id))]];
    metrics.remote_write_refused.inc(samples);
    log.warn({ samples, robot_ids, reason: reasons[0] }, "the receiver of remote write refused samples");
  }
  await putSent(db, positionsOf(batch, finished), clock.now());
  if (failure !== undefined) throw failure.error;
}

const countSamples = (chunks: readonly OutgoingChunk[]): number => chunks.reduce((sum, { sample_count }) => sum + sample_count, 0);

/** Returns for each robot the last chunk up to which all are finished. */
function positionsOf(batch: readonly OutgoingChunk[], finished: ReadonlySet<OutgoingChunk>): SentPosition[] {
  const positions = new Map<string, SentPosition>();
  const blocked = new Set<string>();
  for (const chunk of batch) {
    const { org_id, robot_id } = chunk.origin;
    if (!finished.has(chunk)) blocked.add(robot_id);
    if (!blocked.has(robot_id)) positions.set(robot_id, { org_id, robot_id, number: chunk.number });
  }
  return [...positions.values()];
}

async function post({ clock }: Plane, { receiver, signal }: SendContext, chunks: readonly OutgoingChunk[]): Promise<void> {
  const with_samples = chunks.filter(({ sample_count }) => sample_count > 0);
  if (with_samples.length === 0) return;
  const request = {
    headers: WRITE_HEADERS,
    body: encodeWriteRequest(with_samples),
    timeout_ms: REQUEST_TIMEOUT_MS,
    response_bytes_max: RESPONSE_BYTES_MAX,
  };
  const answer = await exchange({ clock, signal }, receiver, request).catch((error: unknown) => {
    throw new Failed(error instanceof Error ? error.message : "unknown error");
  });
  const { status, text, headers } = answer;
  if (status >= 200 && status < 300) return;
  const reason = `status ${status}: ${printable(text.trim())}`;
  if (REFUSALS.has(status)) throw new Refused(reason);
  throw new Failed(reason, retryAfterMs(String(headers["retry-after"] ?? ""), clock.now()));
}

/** Parses Retry-After: seconds or a date. */
function retryAfterMs(value: string, now: Date): number {
  const ms = /^\d+$/.test(value) ? Number(value) * 1_000 : Date.parse(value) - now.getTime();
  return Number.isNaN(ms) ? 0 : Math.min(RETRY_AFTER_MS_MAX, Math.max(0, ms));
}
