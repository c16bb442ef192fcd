import { type ChunkQueue, SampleCollector, type SampleCollectorOptions } from "@roamfleet/agent/parts";
import { idleActivity, type Timer } from "@roamfleet/clock";

/** The metrics of each robot of a swarm. */
export interface SampleOptions {
  /** Number of series. */
  series: number;
  interval_seconds: number;
  flush_seconds: number;
}

/** Maximum waiting chunks of a robot. The oldest are dropped first. Real agents have a bound of 4 MiB on disk. */
const CHUNKS_MAX = 500;

/** The chunks that the server has not acknowledged, oldest first. Real agents store them on disk. */
class MemoryChunks implements ChunkQueue {
  readonly #spool_id: string;
  #chunks: { seq: number; chunk: Buffer }[] = [];
  #seq = 0;
  dropped = 0;

  constructor(spool_id: string) {
    this.#spool_id = spool_id;
  }

  get size(): number {
    return this.#chunks.length;
  }

  add(chunk: Buffer): void {
    this.#chunks.push({ seq: (this.#seq += 1), chunk });
    if (this.#chunks.length <= CHUNKS_MAX) return;
    this.#chunks.shift();
    this.dropped += 1;
  }

  first(): ReturnType<ChunkQueue["first"]> {
    const [first] = this.#chunks;
    return first && { spool_id: this.#spool_id, ...first };
  }

  acknowledge(spool_id: string, seq: number): void {
    if (spool_id === this.#spool_id && this.#chunks[0]?.seq === seq) this.#chunks.shift();
  }
}

interface RobotSamplesOptions extends Pick<SampleCollectorOptions, "clock" | "server_time" | "log"> {
  /** Number of the robot, which determines its values. */
  number: number;
  /** Unique for each run of the swarm and robot. */
  spool_id: string;
  options: SampleOptions;
  /** Called when a further chunk waits. */
  added: () => void;
}

/** Samples of a simulated robot: the agent's collector, with simulated values and with memory instead of a disk. */
export class RobotSamples {
  readonly queue: MemoryChunks;
  readonly #collector: SampleCollector;
  readonly #options: RobotSamplesOptions;
  #count = 0;
  #begin: Timer | undefined;

  constructor(options: RobotSamplesOptions) {
    const { number, spool_id, added } = options;
    const { series, ...intervals } = options.options;
    this.#options = options;
    this.queue = new MemoryChunks(spool_id);
    this.#collector = new SampleCollector({
      ...options,
      ...intervals,
      activity: idleActivity,
      read: () => {
        this.#count += 1;
        const values = Array.from({ length: series }, (_, i) => ({
          name: "swarm_value",
          labels: { series: String(i) },
          value: simulatedValue(number, i, this.#count),
        }));
        return Promise.resolve(values);
      },
      write: (chunk) => {
        this.queue.add(chunk);
        added();
      },
    });
  }

  /** Number of samples that were collected. */
  get collected(): number {
    return this.#count * this.#options.options.series;
  }

  /** Begins at a random part of an interval, so that robots do not act in lockstep. */
  start(): void {
    const { clock, options } = this.#options;
    this.#begin = clock.setTimer(clock.random() * options.interval_seconds * 1_000, () => this.#collector.start());
  }

  /** Flushes what was collected, and stops. */
  stop(): void {
    this.#begin?.cancel();
    this.#collector.stop();
  }
}

/** Returns the value of a series in the robot's sample number `count`: for series 0 the number itself, for the others a curve with noise. */
export function simulatedValue(robot: number, series: number, count: number): number {
  if (series === 0) return count;
  const noise = ((robot * 7_919 + series * 104_729 + count * 15_485_863) % 1_009) / 1_009;
  return Math.round((50 + 30 * Math.sin(count / 20 + series) + 4 * noise) * 10) / 10;
}
