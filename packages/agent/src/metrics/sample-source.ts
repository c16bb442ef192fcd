import type { Clock } from "@roamfleet/clock";
import { LABEL_VALUE_BYTES_MAX, LABELS_PER_SERIES_MAX, METRIC_NAME_BYTES_MAX } from "@roamfleet/protocol/link";
import type { Logger } from "pino";
import type { GivenSample } from "./exposition.ts";
import { type SampleCollector, SPACING_MS_MIN } from "./sample-collector.ts";
import type { Value } from "./system-values.ts";

/** Maximum age of a sample that has its own time, and the maximum by which it may be ahead of the robot's clock. */
const AGE_MS_MAX = 300_000;
const AHEAD_MS_MAX = 1_000;
/** Names that Prometheus accepts, without those that it reserves. */
const NAME = /^(?!__)[a-zA-Z_][a-zA-Z0-9_]*$/;
const EXAMPLE_CHARACTERS_MAX = 200;

/** Why samples are not collected, with an explanation for people. */
export const DROP_REASONS = {
  invalid: "it has another format",
  name: `names of metrics and labels must match [a-zA-Z_][a-zA-Z0-9_]*, not begin with __ and have at most ${METRIC_NAME_BYTES_MAX} characters`,
  label: `a series may have at most ${LABELS_PER_SERIES_MAX} labels, and a label's value at most ${LABEL_VALUE_BYTES_MAX} bytes`,
  value: "the value is not a finite number",
  time: `the time is more than ${AGE_MS_MAX / 60_000} minutes ago, in the future, or before the last sample of the series`,
  duplicate: `the series has a sample less than ${SPACING_MS_MIN / 1_000} s before, or belongs to another source`,
  series: "the source, or all sources together, have too many series",
  size: "the response is too large: the rest was not read",
} as const;
export type DropReason = keyof typeof DROP_REASONS;

interface SampleSourceOptions {
  /** Identifies the source. */
  name: string;
  /** Added to each series. If there are none, the metric of dropped samples has the name as label. */
  labels: Readonly<Record<string, string>>;
  collector: Pick<SampleCollector, "add">;
  clock: Clock;
  log: Pick<Logger, "warn">;
}

/** Passes the samples of one source to the collector. Samples that exceed a bound are dropped, counted, and logged once for each reason. */
export class SampleSource {
  readonly #options: SampleSourceOptions;
  readonly #dropped = new Map<DropReason, number>();

  constructor(options: SampleSourceOptions) {
    this.#options = options;
  }

  /** Collects a sample. `time` is the time of samples without their own, on the monotonic clock. Returns why a sample was dropped. */
  take(sample: GivenSample, time: number): DropReason | undefined {
    const reason = this.#collect(sample, time);
    if (reason !== undefined) this.drop(reason, `${sample.name} ${JSON.stringify(sample.labels)} ${sample.value}`);
    return reason;
  }

  /** Counts a dropped sample, or a response of which the rest was not read. */
  drop(reason: DropReason, example: string): void {
    const { name: source, log } = this.#options;
    const count = this.#dropped.get(reason) ?? 0;
    this.#dropped.set(reason, count + 1);
    if (count > 0) return;
    const sample = example.slice(0, EXAMPLE_CHARACTERS_MAX);
    log.warn({ source, reason, explanation: DROP_REASONS[reason], sample }, "samples were dropped; more of this kind are only counted");
  }

  /** Returns the number of dropped samples by reason, as values of the agent. */
  values(): Value[] {
    const { name, labels } = this.#options;
    const own = Object.keys(labels).length === 0 ? { source: name } : labels;
    return Array.from(this.#dropped, ([reason, value]) => ({ name: "samples_dropped", labels: { ...own, reason }, value }));
  }

  #collect({ name, labels, value, time: own_time }: GivenSample, now: number): DropReason | undefined {
    const { name: source, collector } = this.#options;
    const pairs = this.#labelsOf(labels);
    if (![name, ...pairs.map(([label]) => label)].every((one) => NAME.test(one) && one.length <= METRIC_NAME_BYTES_MAX)) return "name";
    const isShort = (text: string): boolean => Buffer.byteLength(text) <= LABEL_VALUE_BYTES_MAX;
    if (pairs.length > LABELS_PER_SERIES_MAX || !pairs.every(([, text]) => isShort(text))) return "label";
    if (!Number.isFinite(value)) return "value";
    const time = own_time === undefined ? now : this.#monotonic(own_time);
    return time === undefined ? "time" : collector.add({ name, labels: Object.fromEntries(pairs), value }, time, source);
  }

  /** Adds the source's labels. As in Prometheus, equal names of the sample get a prefix, and a label without a value is no label. */
  #labelsOf(labels: Readonly<Record<string, string>>): [string, string][] {
    const own = this.#options.labels;
    const given = Object.entries(labels).flatMap(([label, text]): [string, string][] =>
      text === "" ? [] : [[Object.hasOwn(own, label) ? `exported_${label}` : label, text.toWellFormed()]],
    );
    return [...given, ...Object.entries(own)];
  }

  /** Converts a time of the robot's clock; undefined if it is too far from now. */
  #monotonic(time: number): number | undefined {
    const { clock } = this.#options;
    const age_ms = clock.now().getTime() - time;
    return age_ms > AGE_MS_MAX || age_ms < -AHEAD_MS_MAX ? undefined : clock.monotonic() - age_ms;
  }
}
