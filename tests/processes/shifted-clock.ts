// Loaded before a program (--import): shifts its wall clock by the number of milliseconds in a file, which may change at any time, as if
// an administrator set the machine's clock. Timers and the monotonic clock are unaffected.
import { readFileSync } from "node:fs";

const LOOK_EVERY_MS = 10;
const file = process.env.SHIFTED_CLOCK_FILE;
if (file === undefined) throw new Error("SHIFTED_CLOCK_FILE is not set");

const offset = (): number => Number(readFileSync(file, "utf8"));
let offset_ms = offset();
setInterval(() => (offset_ms = offset()), LOOK_EVERY_MS).unref();

const RealDate = Date;
const now = (): number => RealDate.now() + offset_ms;
globalThis.Date = new Proxy(RealDate, {
  construct: (target, words: unknown[], made) =>
    words.length === 0 ? new target(now()) : (Reflect.construct(target, words, made === globalThis.Date ? target : made) as Date),
  get: (target, name) => (name === "now" ? now : (Reflect.get(target, name) as unknown)),
});
