import type { Writable } from "node:stream";

/** Resolves when there is room in a stream again, or it is gone. To be called when `write` has said that there is none. */
export const drained = (stream: Writable): Promise<void> =>
  new Promise((resolve) => {
    if (stream.destroyed || !stream.writableNeedDrain) return resolve();
    const done = (): void => {
      stream.off("drain", done);
      stream.off("close", done);
      resolve();
    };
    stream.on("drain", done);
    stream.on("close", done);
  });
