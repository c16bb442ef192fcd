import type { Series } from "@roamfleet/protocol/link";
import { compress } from "snappyjs";

/** The robot whose samples are sent. */
export interface Origin {
  org_id: string;
  site_id: string;
  fleet_id: string;
  robot_id: string;
  robot_name: string;
}

/** Headers of remote write 1.0. */
export const WRITE_HEADERS = {
  "content-type": "application/x-protobuf",
  "content-encoding": "snappy",
  "x-prometheus-remote-write-version": "0.1.0",
};

/** Value of the label `job`. A robot cannot set it, so it cannot forge series of the operator's own jobs. */
export const JOB = "roamfleet_robots";
export const OUR_LABELS: ReadonlySet<string> = new Set(["job", "org_id", "site_id", "fleet_id", "robot_id", "robot"]);

/** Returns whether a robot's label gets the prefix `exported_`: it is a label of ours, or reserved by Prometheus. */
const isReserved = (label: string): boolean => OUR_LABELS.has(label) || label.startsWith("__");

/** Returns all labels of a series, sorted by name. A label of the robot with a reserved name gets the prefix `exported_`, as in Prometheus. */
export function labelsOf(origin: Origin, { name, labels }: Pick<Series, "name" | "labels">): [string, string][] {
  const { org_id, site_id, fleet_id, robot_id, robot_name } = origin;
  const all = new Map([
    ["__name__", name],
    ...Object.entries({ job: JOB, org_id, site_id, fleet_id, robot_id, robot: robot_name }),
    ...Object.entries(labels).filter(([label]) => !isReserved(label)),
  ] as [string, string][]);
  for (const [label, value] of Object.entries(labels).filter(([one]) => isReserved(one))) {
    let exported = `exported_${label}`;
    while (all.has(exported)) exported = `exported_${exported}`;
    all.set(exported, value);
  }
  return [...all].sort(([a], [b]) => (a < b ? -1 : 1));
}

/** The reverse of `labelsOf`: returns the robot's own labels. */
export const robotLabels = (labels: Readonly<Record<string, string>>): Record<string, string> =>
  Object.fromEntries(
    Object.entries(labels).flatMap(([label, value]) => {
      if (isReserved(label)) return [];
      const original = label.replace(/^(?:exported_)+/, "");
      return [[isReserved(original) ? original : label, value]];
    }),
  );

/**
 * Encodes the body of a request of remote write 1.0: a snappy block with a protobuf message. The numbers are those of the fields:
 *
 *     message WriteRequest { repeated TimeSeries timeseries = 1; }
 *     message TimeSeries { repeated Label labels = 1; repeated Sample samples = 2; }
 *     message Label { string name = 1; string value = 2; }
 *     message Sample { double value = 1; int64 timestamp = 2; }
 */
export function encodeWriteRequest(parts: readonly { origin: Origin; series: readonly Series[] }[]): Uint8Array {
  const request = new Message();
  for (const { origin, series } of parts)
    for (const one of series) {
      const encoded = new Message();
      for (const [name, value] of labelsOf(origin, one)) {
        const label = new Message();
        label.bytes(1, Buffer.from(name));
        label.bytes(2, Buffer.from(value));
        encoded.bytes(1, label.encoded());
      }
      const sample = new Message();
      for (const { time, value } of inOrder(one)) {
        sample.clear();
        sample.double(1, value);
        sample.varint(2, time);
        encoded.bytes(2, sample.encoded());
      }
      request.bytes(1, encoded.encoded());
    }
  return compress(request.encoded());
}

/** Returns the samples in the order of their times, and the last of those with the same time. Prometheus refuses others. */
function inOrder({ times, values }: Series): { time: number; value: number }[] {
  const samples = times.map((time, i) => ({ time, value: values[i] ?? Number.NaN })).sort((a, b) => a.time - b.time);
  return samples.filter(({ time }, i) => samples[i + 1]?.time !== time);
}

const WIRE_VARINT = 0;
const WIRE_DOUBLE = 1;
const WIRE_BYTES = 2;
const MESSAGE_BYTES = 256;

/** A protobuf message. Field numbers are at most 15. */
class Message {
  #buffer = Buffer.allocUnsafe(MESSAGE_BYTES);
  #end = 0;

  varint(field: number, value: number): void {
    this.#number(field * 8 + WIRE_VARINT);
    this.#number(value);
  }

  double(field: number, value: number): void {
    this.#number(field * 8 + WIRE_DOUBLE);
    this.#grow(8);
    this.#end = this.#buffer.writeDoubleLE(value, this.#end);
  }

  bytes(field: number, bytes: Uint8Array): void {
    this.#number(field * 8 + WIRE_BYTES);
    this.#number(bytes.length);
    this.#grow(bytes.length);
    this.#buffer.set(bytes, this.#end);
    this.#end += bytes.length;
  }

  /** Valid until the message is changed. */
  encoded(): Buffer {
    return this.#buffer.subarray(0, this.#end);
  }

  clear(): void {
    this.#end = 0;
  }

  #number(value: number): void {
    this.#grow(8);
    for (; value >= 128; value = Math.floor(value / 128)) this.#buffer[this.#end++] = (value % 128) + 128;
    this.#buffer[this.#end++] = value;
  }

  #grow(bytes: number): void {
    if (this.#end + bytes <= this.#buffer.length) return;
    const larger = Buffer.allocUnsafe(Math.max(this.#buffer.length * 2, this.#end + bytes));
    larger.set(this.encoded());
    this.#buffer = larger;
  }
}
