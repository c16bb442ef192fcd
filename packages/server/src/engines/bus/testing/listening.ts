import { systemClock } from "@roamfleet/clock";
import { until } from "@roamfleet/clock/testing";
import type { JsonValue } from "@roamfleet/protocol";
import type { Bus } from "../bus.ts";
import { natsBus, type NatsBusOptions } from "../nats-bus.ts";

/** One end of a bus on NATS, with the messages of one subject, its gaps and its log. */
export interface Listening extends AsyncDisposable {
  bus: Bus;
  heard: JsonValue[];
  gaps: () => number;
  logged: { level: string; message: string; fields: object }[];
}

/** Creates a `natsBus` that listens to `subject`. */
export async function listen(options: Partial<NatsBusOptions> & Pick<NatsBusOptions, "address">, subject = "rf.test"): Promise<Listening> {
  const logged: Listening["logged"] = [];
  const at = (level: string) => (fields: object, message: string) => void logged.push({ level, message, fields });
  const log = { debug: at("debug"), info: at("info"), warn: at("warn"), error: at("error") };
  const bus = await natsBus({ clock: systemClock, log, ...options });
  const heard: JsonValue[] = [];
  let gaps = 0;
  bus.subscribe(subject, (message) => void heard.push(message));
  bus.onGap(() => void (gaps += 1));
  return { bus, heard, gaps: () => gaps, logged, [Symbol.asyncDispose]: () => bus.close() };
}

/** Like `listen`, but resolves when the bus is connected and has reported its first gap. */
export async function listenConnected(...args: Parameters<typeof listen>): Promise<Listening> {
  const end = await listen(...args);
  await until("the bus is connected", () => end.bus.connected && end.gaps() > 0);
  return end;
}

/** Resolves when all earlier messages of `from` have reached `to`. */
export async function passed(from: Bus, to: Bus): Promise<void> {
  barriers += 1;
  const subject = `rf.passed.${process.pid}.${barriers}`;
  let arrived = false;
  const end = to.subscribe(subject, () => void (arrived = true));
  await until("what was published arrives", () => {
    if (!arrived) from.publish(subject, null);
    return arrived;
  });
  end();
}

let barriers = 0;
