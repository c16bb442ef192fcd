import { once } from "node:events";
import { PassThrough, type Readable } from "node:stream";
import type { Clock } from "@roamfleet/clock";
import { toS3Error } from "./s3-error.ts";
import type { S3Store } from "./s3-store.ts";

/** A range of an object, both ends included. */
export interface Piece {
  key: string;
  start: number;
  end: number;
  /** ETag of the expected object. Another object under the same key is not read. */
  etag?: string | undefined;
}

/** Consecutive disconnects without a byte between them that a read tolerates. Failed calls have been retried already. */
const CUTS_MAX = 3;
const PAUSE_MS = 200;

/**
 * Streams the pieces in order. Reconnects after a disconnect and continues at the same byte, so that a robot's download of an hour survives
 * it. `opened` is the body of the first piece, if it is open already.
 */
export function readPieces(store: S3Store, clock: Clock, pieces: readonly Piece[], opened?: Readable): Readable {
  const out = new PassThrough();
  const stopping = new AbortController();
  out.once("close", () => stopping.abort());
  pump({ store, clock, out, signal: stopping.signal }, pieces, opened).then(
    () => void (out.destroyed || out.end()),
    (error: unknown) => out.destroy(error instanceof Error ? error : new Error(String(error))),
  );
  return out;
}

interface Pump {
  store: S3Store;
  clock: Clock;
  out: PassThrough;
  signal: AbortSignal;
}

async function pump(context: Pump, pieces: readonly Piece[], opened: Readable | undefined): Promise<void> {
  let body = opened;
  context.signal.addEventListener("abort", () => void body?.destroy(), { once: true });
  for (const piece of pieces) {
    let at = piece.start;
    let cuts = 0;
    while (at <= piece.end && !context.signal.aborted) {
      body ??= (await context.store.get(piece.key, { start: at, end: piece.end }, piece.etag)).body;
      try {
        for await (const chunk of awaited(context, body)) {
          at += chunk.byteLength;
          cuts = 0;
          if (context.signal.aborted) return;
          if (!context.out.write(chunk)) await once(context.out, "drain", { signal: context.signal });
        }
        if (at <= piece.end) throw new Error("the response of the S3 store ended early");
      } catch (error) {
        if (context.signal.aborted) return;
        cuts += 1;
        if (cuts > CUTS_MAX) throw toS3Error("GetObject", error);
        await context.clock.sleep(PAUSE_MS * cuts, context.signal);
      } finally {
        body?.destroy();
        body = undefined;
      }
    }
  }
}

/** Yields the body's chunks. Throws if the next one does not arrive in time. */
async function* awaited({ store: { quiet_ms }, clock }: Pump, body: Readable): AsyncGenerator<Buffer> {
  const chunks = body[Symbol.asyncIterator]();
  for (;;) {
    // The timer runs only while waiting for the store: a slow reader is not the store's fault.
    const late = clock.setTimer(quiet_ms, () => body.destroy(new Error(`no data for ${quiet_ms} ms`)));
    const { done, value } = await chunks.next().finally(() => late.cancel());
    if (done === true) return;
    yield value as Buffer;
  }
}
