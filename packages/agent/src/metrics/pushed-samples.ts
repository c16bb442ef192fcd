import type { Clock } from "@roamfleet/clock";
import { ExpositionParser, type GivenSample } from "./exposition.ts";
import { DROP_REASONS, type DropReason, type SampleSource } from "./sample-source.ts";
import { isOpenMetrics } from "./scraper.ts";

/** An RFC 3339 time. */
const TIME = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:Z|[+-]\d\d:\d\d)$/;

/** A request whose body has another form. The message names the field. */
export class InvalidSamples extends Error {}

/** The result of a request. `dropped` has an entry for each reason. */
export interface PushResult {
  accepted: number;
  dropped: { reason: DropReason; explanation: string; samples: number; first: string }[];
}

/** Takes samples that programs of the robot send to the local socket. */
export class PushedSamples {
  readonly #source: SampleSource;
  readonly #clock: Clock;

  constructor(source: SampleSource, clock: Clock) {
    this.#source = source;
    this.#clock = clock;
  }

  /** Takes the samples of a body: JSON, or the text format of Prometheus. Throws InvalidSamples. */
  take(content_type: string | undefined, body: Buffer): PushResult {
    const result: PushResult = { accepted: 0, dropped: [] };
    const time = this.#clock.monotonic();
    const drop = (reason: DropReason, first: string): void => {
      const known = result.dropped.find((one) => one.reason === reason);
      if (known === undefined) result.dropped.push({ reason, explanation: DROP_REASONS[reason], samples: 1, first: first.slice(0, 200) });
      else known.samples += 1;
    };
    const take = (sample: GivenSample): void => {
      const reason = this.#source.take(sample, time);
      if (reason === undefined) result.accepted += 1;
      else drop(reason, sample.name);
    };
    const is_open_metrics = isOpenMetrics(content_type);
    if (!is_open_metrics && content_type?.startsWith("text/plain") !== true) {
      for (const sample of samplesOf(body)) take(sample);
      return result;
    }
    const invalid = (line: string): void => {
      this.#source.drop("invalid", line);
      drop("invalid", line);
    };
    const parser = new ExpositionParser({ is_open_metrics, sample: take, invalid });
    parser.write(body);
    parser.end();
    return result;
  }
}

/** Reads all samples before any is taken, so that an invalid body changes nothing. */
function samplesOf(body: Buffer): GivenSample[] {
  let value: unknown;
  try {
    value = JSON.parse(body.toString("utf8"));
  } catch {
    throw new InvalidSamples("the body is not JSON; set content-type to text/plain for the text format of Prometheus");
  }
  return Array.isArray(value) ? value.map((one: unknown, i) => sampleOf(one, `samples[${i}]`)) : [sampleOf(value, "the sample")];
}

function sampleOf(given: unknown, at: string): GivenSample {
  if (!isObject(given)) throw new InvalidSamples(`${at} must be an object with name, value, labels and time`);
  const { name, value, labels = {}, time, ...rest } = given;
  const [unknown] = Object.keys(rest);
  if (unknown !== undefined) throw new InvalidSamples(`${at} has an unknown field ${JSON.stringify(unknown.slice(0, 100))}`);
  if (typeof name !== "string") throw new InvalidSamples(`${at}: name must be a string`);
  if (typeof value !== "number") throw new InvalidSamples(`${at}: value must be a number`);
  if (!isObject(labels) || !Object.values(labels).every((text) => typeof text === "string"))
    throw new InvalidSamples(`${at}: labels must be an object of strings`);
  if (time !== undefined && !(typeof time === "string" && TIME.test(time) && Number.isFinite(Date.parse(time))))
    throw new InvalidSamples(`${at}: time must be an RFC 3339 time such as 2030-01-01T00:00:00Z`);
  return { name, value, labels: labels as Record<string, string>, ...(time === undefined ? {} : { time: Date.parse(time) }) };
}

const isObject = (value: unknown): value is Record<string, unknown> => typeof value === "object" && value !== null && !Array.isArray(value);
