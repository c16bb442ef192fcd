import { hash, randomBytes, randomUUID } from "node:crypto";
import type { Data, Ledger } from "../crash/ledger.ts";

/**
 * A write with the sequence numbers of its request and its response: a response with a lower number preceded a request with a higher one.
 */
export interface Timed {
  id: string;
  table: "site" | "config_entry" | "release" | "robot";
  sent: number;
  answered: number;
  deleted: boolean;
}

/** Clients that continuously write objects of several kinds and record the order of requests and responses. */
export class BusyServer {
  readonly writes: Timed[] = [];
  readonly uploaded = new Map<string, string>();
  readonly #ledger: Ledger;
  #moment = 0;
  #stopped = false;
  #work: Promise<unknown> = Promise.resolve();

  constructor(ledger: Ledger) {
    this.#ledger = ledger;
  }

  /** The simulated robots enroll with `enrollment_key`. */
  start(enrollment_key: string): void {
    const work = Promise.all([
      this.#loop((n) => this.#post("site", "/api/sites", { name: `Site ${n}` })),
      this.#loop((n) =>
        this.#post("config_entry", "/api/configs", { scope: "org", namespace: `space-${n % 20}`, key: `key-${n}`, value: n }),
      ),
      this.#loop((n) => this.#release(n)),
      this.#loop(() => this.#enroll(enrollment_key)),
    ]);
    // Errors are reported by `stop`.
    work.catch(() => {});
    this.#work = work;
  }

  async stop(): Promise<void> {
    this.#stopped = true;
    await this.#work;
  }

  get moment(): number {
    return this.#moment;
  }

  async #loop(write: (n: number) => Promise<unknown>): Promise<void> {
    for (let n = 0; !this.#stopped; n += 1) await write(n);
  }

  async #post(table: Timed["table"], path: string, body: unknown): Promise<Timed & { data: Data }> {
    const sent = (this.#moment += 1);
    const data = await this.#ledger.post(path, body);
    const write = { id: data.id, table, sent, answered: (this.#moment += 1), deleted: false };
    this.writes.push(write);
    return Object.assign(write, { data });
  }

  /** Creates a release with its artifact. Every third one is deleted again, which leaves an unreferenced artifact. */
  async #release(n: number): Promise<void> {
    const bytes = randomBytes(20_000 + (n % 7) * 30_000);
    const artifact_sha256 = hash("sha256", bytes);
    const write = await this.#post("release", "/api/releases", {
      tag: `tag-${n}`,
      kind: "file",
      artifact_sha256,
      artifact_size: bytes.length,
    });
    const { status, text } = await this.#ledger.send("PUT", `/api/releases/${write.id}/artifact`, bytes);
    if (status !== 200) throw new Error(`the upload was answered ${status} ${text}`);
    this.uploaded.set(write.id, artifact_sha256);
    if (n % 3 !== 2) return;
    write.deleted = true;
    await this.#ledger.remove(`/api/releases/${write.id}`);
  }

  async #enroll(key: string): Promise<void> {
    const sent = (this.#moment += 1);
    const body = { key, public_key: randomBytes(32).toString("base64"), name: `robot-${randomUUID()}` };
    const { status, text } = await this.#ledger.send("POST", "/agent/enroll", body);
    if (status >= 300) throw new Error(`the enrollment was answered ${status} ${text}`);
    const { robot_id } = (JSON.parse(text) as { data: { robot_id: string } }).data;
    this.writes.push({ id: robot_id, table: "robot", sent, answered: (this.#moment += 1), deleted: false });
  }
}
