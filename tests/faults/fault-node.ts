import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { refuseSecrets } from "../harness/secrets.ts";
import { Program } from "../processes/process.ts";
import type { Machine } from "./network.ts";

const PORT = 7600;
const READY_MS = 3_000;
const LIMITS = ["token_requests_per_minute=1000000", "token_burst=1000000", "link_accepts_per_second=0"];

/** `roamfleet serve` in a separate process on a machine of the network. */
export class FaultNode implements AsyncDisposable {
  readonly machine: Machine;
  readonly url: string;
  readonly #data = mkdtempSync(path.join(tmpdir(), "roamfleet-node-"));
  readonly #env: Record<string, string>;
  readonly #proxy: string;
  readonly #programs: Program[] = [];

  /** `proxy` is the only address that may connect to the node. */
  constructor(machine: Machine, proxy: string, env: Record<string, string>) {
    this.machine = machine;
    this.url = `http://${machine.address}:${PORT}`;
    this.#proxy = proxy;
    this.#env = { ...env, ROAMFLEET_NODE_LISTEN: `${machine.address}:0` };
  }

  /** Starts the node, also after a kill. Resolves when it listens. */
  async up(): Promise<void> {
    const limits = LIMITS.flatMap((limit) => ["--limit", limit]);
    const listen = ["--listen", `${this.machine.address}:${PORT}`, "--behind-proxy", this.#proxy];
    const words = ["serve", "--data", this.#data, ...listen, ...limits];
    const program = new Program("packages/server/src/main.ts", words, this.#env, this.machine.within);
    this.#programs.push(program);
    await program.until("the node to listen", () => /"msg":"listening"/.test(program.output));
  }

  get program(): Program {
    const program = this.#programs.at(-1);
    if (program === undefined) throw new Error("the node was never started");
    return program;
  }

  /** The node's id in the database. */
  get id(): string {
    return readFileSync(path.join(this.#data, "node-id"), "utf8").trim();
  }

  freeze(): void {
    this.program.child.kill("SIGSTOP");
  }

  thaw(): void {
    this.program.child.kill("SIGCONT");
  }

  /** Whether /readyz reports ready, so that a balancer sends requests. */
  async ready(): Promise<boolean> {
    const answer = await fetch(`${this.url}/readyz`, { signal: AbortSignal.timeout(READY_MS), headers: { connection: "close" } }).catch(
      () => {},
    );
    await answer?.arrayBuffer().catch(() => {});
    return answer?.status === 200;
  }

  /** The end of the node's log. */
  get words(): string {
    return this.program.output.slice(-3_000);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const newest = this.#programs.at(-1);
    if (newest?.running === true) {
      this.thaw();
      await newest.kill();
    }
    try {
      refuseSecrets("a node", { directory: this.#data, outputs: this.#programs.map(({ output }) => output) });
    } finally {
      rmSync(this.#data, { recursive: true, force: true });
    }
  }
}
