import { hash } from "node:crypto";
import { isDeepStrictEqual } from "node:util";
import type { DesiredConfig, ReportBody } from "@roamfleet/protocol/link";

/** The functions of a simulated robot that its config files use. */
export interface ConfigHost {
  report(body: ReportBody): void;
  /** Fetches the file from the server; throws if that fails. */
  fetchConfig(namespace: string, sha256: string): Promise<string>;
}

/** The config file of a namespace on a simulated robot, in memory. */
export class ConfigRunner {
  readonly #namespace: string;
  readonly #robot: ConfigHost;
  #content: string | undefined;
  /** The last applied version; the file may have been changed manually since. */
  #applied: { version: number; sha256: string } | undefined;
  #wish: DesiredConfig | undefined;
  #last: { target_id: string; attempt: number; body: ReportBody } | undefined;
  #busy = false;

  constructor(namespace: string, robot: ConfigHost) {
    this.#namespace = namespace;
    this.#robot = robot;
  }

  /** The file's content; undefined before the first deployment. */
  get content(): string | undefined {
    return this.#content;
  }

  wishFor(wish: DesiredConfig): void {
    // The desired state contains every config again when another part of it changes.
    if (isDeepStrictEqual(wish, this.#wish)) return;
    this.#wish = wish;
    void this.#work();
  }

  announce(): void {
    if (this.#content !== undefined) this.#reportFile();
    if (this.#last !== undefined) this.#robot.report(this.#last.body);
    void this.#work();
  }

  /** Changes the file manually; the robot then reports the change. */
  edit(content: string): void {
    this.#content = content;
    this.#reportFile();
  }

  async #work(): Promise<void> {
    if (this.#busy) return;
    this.#busy = true;
    try {
      for (let done: DesiredConfig | undefined; this.#wish !== undefined && this.#wish !== done;) {
        done = this.#wish;
        await this.#bring(done);
      }
    } finally {
      this.#busy = false;
    }
  }

  async #bring(wish: DesiredConfig): Promise<void> {
    if (wish.target_id !== null && this.#last?.target_id === wish.target_id && this.#last.attempt >= wish.attempt)
      return this.#robot.report(this.#last.body);
    // Without a deployment, a manually changed file stays and is reported as drift.
    if (wish.target_id === null && this.#applied?.version === wish.version && this.#applied.sha256 === wish.sha256) return;
    const changed = this.#sha256() !== wish.sha256;
    if (changed) {
      const content = await this.#robot.fetchConfig(this.#namespace, wish.sha256).catch(() => undefined);
      if (this.#wish !== wish) return this.#finish(wish, { status: "cancelled" }); // A newer config is desired by now.
      if (content === undefined || hash("sha256", content) !== wish.sha256)
        return this.#finish(wish, { status: "failed", reason: content === undefined ? "download_failed" : "digest_mismatch" });
      this.#content = content;
    }
    this.#applied = { version: wish.version, sha256: wish.sha256 };
    this.#finish(wish, { status: "applied", changed });
    this.#reportFile();
  }

  #finish(
    { target_id, deployment_id, attempt }: DesiredConfig,
    ending: { status: "applied"; changed: boolean } | { status: "cancelled" } | { status: "failed"; reason: string },
  ): void {
    if (target_id === null || deployment_id === null) return;
    const body: ReportBody = { kind: "target", target_id, deployment_id, attempt, ...ending };
    this.#last = { target_id, attempt, body };
    this.#robot.report(body);
  }

  #sha256(): string {
    return this.#content === undefined ? "" : hash("sha256", this.#content);
  }

  #reportFile(): void {
    this.#robot.report({ kind: "config", namespace: this.#namespace, version: this.#applied?.version ?? 0, sha256: this.#sha256() });
  }
}
