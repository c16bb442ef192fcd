import { type Clock, idleActivity, systemClock } from "@roamfleet/clock";
import { decodeChunk, type Series } from "@roamfleet/protocol/link";
import { pino } from "pino";
import { SampleCollector } from "../metrics/sample-collector.ts";
import { SampleSource } from "../metrics/sample-source.ts";

/** Creates a collector for tests. It has only the samples that sources give it, and writes them as a chunk when the test calls `taken`. */
export function collectSamples(clock: Clock = systemClock) {
  const chunks: Series[][] = [];
  const lines: string[] = [];
  const log = pino({ level: "info" }, { write: (line: string) => void lines.push(line) });
  const collector = new SampleCollector({
    interval_seconds: 10,
    flush_seconds: 60,
    read: () => Promise.resolve([]),
    write: (chunk) => void chunks.push(decodeChunk(chunk)),
    clock,
    activity: idleActivity,
    server_time: () => clock.now().getTime(),
    log,
  });
  return {
    collector,
    /** The chunks since the last call of `taken`. */
    chunks,
    lines,
    log,
    source: (name = "test", labels: Record<string, string> = {}) => new SampleSource({ name, labels, collector, clock, log }),
    /** Returns all samples since the last call, by series. */
    taken: (): Series[] => {
      collector.flush();
      return chunks.splice(0).flat();
    },
  };
}

/** Returns the dropped samples of a source by reason. */
export const droppedBy = (source: SampleSource): Record<string, number> =>
  Object.fromEntries(source.values().map(({ labels, value }) => [labels["reason"] ?? "", value]));
