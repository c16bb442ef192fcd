import process from "node:process";
import { systemClock } from "@roamfleet/clock";
import { parseNatsUrl } from "../nats-address.ts";
import { natsBus } from "../nats-bus.ts";

/** A separate process on the bus: responds to each message on `rf.question` until it receives `rf.end`, and prints its log. */
const address = parseNatsUrl(process.argv[2] ?? "");
if (address === undefined) throw new Error("usage: echo-process.ts nats://…");
const say = (fields: object, message: string): void => console.log(message, JSON.stringify(fields));
const bus = await natsBus({ address, clock: systemClock, log: { info: say, warn: say, error: say } });
bus.subscribe("rf.question", (message) => bus.publish("rf.test", { answer: message, pid: process.pid }));
bus.subscribe("rf.end", () => bus.close());
