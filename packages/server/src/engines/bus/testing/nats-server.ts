import { type ChildProcess, spawn } from "node:child_process";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { systemClock } from "@roamfleet/clock";
import { until } from "@roamfleet/clock/testing";
import { freePort } from "@roamfleet/clock/testing/free-port";
import { greets, type NatsAddress, parseNatsUrl } from "../nats-address.ts";

const program = [...(process.env.PATH ?? "").split(":"), "/usr/sbin"]
  .map((directory) => path.join(directory, "nats-server"))
  .find((file) => existsSync(file));

/** Why tests with a real NATS server are skipped; false if they run. */
export const SKIP_NATS: string | false = program === undefined && "nats-server is not installed (apt-get install nats-server)";

/** A real NATS server on this machine, with its own port and temporary directory. */
export class NatsServer implements AsyncDisposable {
  readonly host: string;
  readonly port: number;
  readonly #directory: string;
  #process: ChildProcess | undefined;

  private constructor(host: string, port: number, directory: string) {
    this.host = host;
    this.port = port;
    this.#directory = directory;
  }

  /** Creates a server. `config` is in NATS' format. With `start: false`, the server does not run until `restart` is called. */
  static async start({
    config = "",
    host = "127.0.0.1",
    start = true,
  }: { config?: string; host?: string; start?: boolean } = {}): Promise<NatsServer> {
    const directory = await mkdtemp(path.join(tmpdir(), "roamfleet-nats-"));
    const server = new NatsServer(host, await freePort(host), directory);
    await writeFile(path.join(directory, "nats.conf"), `listen: "${host}:${server.port}"\n${config}\n`);
    if (start) await server.restart();
    return server;
  }

  /** Returns the URL for ROAMFLEET_BUS_URL; `user` includes the password. */
  url({ user, prefix = "roamfleet", port = this.port }: { user?: string; prefix?: string; port?: number } = {}): string {
    return `nats://${user === undefined ? "" : `${user}@`}${this.host}:${port}/${prefix}`;
  }

  address(of: Parameters<NatsServer["url"]>[0] = {}): NatsAddress {
    const address = parseNatsUrl(this.url(of));
    if (address === undefined) throw new Error("the URL of the test's NATS is none");
    return address;
  }

  /** Kills the server if it is running, and starts it again on the same port. */
  async restart(): Promise<void> {
    await this.kill();
    if (program === undefined) throw new Error("nats-server is not installed");
    const started = spawn(program, ["-c", path.join(this.#directory, "nats.conf")], { cwd: this.#directory, stdio: "ignore" });
    this.#process = started;
    await until("nats-server to answer", () => {
      if (started.exitCode !== null) throw new Error(`nats-server did not start: exit ${started.exitCode}`);
      return greets(
        { host: this.host, port: this.port },
        { clock: systemClock, timeout_ms: 1_000, signal: AbortSignal.timeout(2_000) },
      ).then(
        () => true,
        () => false,
      );
    });
  }

  /** Sends SIGKILL. */
  async kill(): Promise<void> {
    const running = this.#process;
    this.#process = undefined;
    if (running === undefined || running.exitCode !== null || running.signalCode !== null) return;
    const ended = new Promise((resolve) => running.once("exit", resolve));
    running.kill("SIGKILL");
    await ended;
  }

  /**
   * Sends SIGSTOP: the server keeps its connections but does not respond. Resolves when every thread is stopped, because until then it may
   * still respond.
   */
  async freeze(): Promise<void> {
    const { pid } = this.#process ?? {};
    if (pid === undefined) return;
    process.kill(pid, "SIGSTOP");
    const stateOf = (task: string): string =>
      readFileSync(`/proc/${pid}/task/${task}/stat`, "utf8")
        .replace(/^.*\) /s, "")
        .slice(0, 1);
    await until("NATS to be stopped", () => readdirSync(`/proc/${pid}/task`).every((task) => stateOf(task) === "T"));
  }

  thaw(): void {
    this.#process?.kill("SIGCONT");
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.kill();
    await rm(this.#directory, { recursive: true, force: true });
  }
}
