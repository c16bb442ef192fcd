import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { type Client, createClient } from "@robofleet/sdk";
import { refuseSecrets } from "../harness/secrets.ts";
import { failpointFlags, type Found, processesNaming, Program } from "./process.ts";

export interface ServerOptions {
  /** Host and port; by default any port of 127.0.0.1. */
  listen?: string;
  /** Where its data directory is made, such as a small disk; by default the system's temporary directory. */
  place?: string;
  args?: readonly string[];
  env?: Record<string, string>;
}

/** `robofleet serve` as a process of its own, with its own PostgreSQL in a data directory that outlives a kill. */
export class ServerProcess implements AsyncDisposable {
  readonly data: string;
  /** Added to the environment of the next start. */
  env: Record<string, string> = {};
  readonly #options: ServerOptions;
  readonly #programs: Program[] = [];
  program: Program;
  url = "";

  private constructor(options: ServerOptions) {
    this.#options = options;
    this.data = mkdtempSync(path.join(options.place ?? tmpdir(), "robofleet-server-"));
    this.program = this.run(options.listen ?? "127.0.0.1:0");
  }

  static async start(options: ServerOptions = {}): Promise<ServerProcess> {
    const server = new ServerProcess(options);
    try {
      server.url = await server.#listening();
    } catch (error) {
      await server[Symbol.asyncDispose]();
      throw error;
    }
    return server;
  }

  /** Starts a server on the same data; it is not waited for. */
  run(listen: string): Program {
    const program = new Program(
      "packages/server/src/main.ts",
      ["serve", "--data", this.data, "--listen", listen, ...failpointFlags(this.env), ...(this.#options.args ?? [])],
      {
        ...this.#options.env,
        ...this.env,
      },
    );
    this.#programs.push(program);
    return program;
  }

  /** Starts the server again at the address that everybody knows. */
  async restart(): Promise<void> {
    this.program = this.run(new URL(this.url).host);
    await this.#listening();
  }

  /** Where clients on this machine reach it. */
  get address(): string {
    return this.url.replace("//0.0.0.0:", "//127.0.0.1:");
  }

  /** Certificate of the authority that a server with `--tls auto` made. */
  get ca(): string | undefined {
    const file = path.join(this.data, "tls", "ca.pem");
    return existsSync(file) ? readFileSync(file, "utf8") : undefined;
  }

  /** A client of a new org, made through the admin routes, which are open to this machine. */
  async org(name: string): Promise<{ api: Client; token: string }> {
    const admin = createClient({ base_url: this.address, ca: this.ca, admin_token: this.#options.env?.SERVICE_ADMIN_TOKEN });
    const { data } = await admin.createOrg({ body: { name } });
    const { token } = (await admin.approveOrg({ params: { id: data.id } })).data;
    if (token === null) throw new Error("the approval answered no token");
    return { token, api: createClient({ base_url: this.address, ca: this.ca, token }) };
  }

  /** Processes that work on the data directory: the server, PostgreSQL and its children. */
  processes(): Found[] {
    return processesNaming(this.data);
  }

  #listening(): Promise<string> {
    return this.program.until(
      "the server to listen",
      () => /"url":"([^"]+)","data":"[^"]+","msg":"listening"/.exec(this.program.output)?.[1],
    );
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.env = {};
    if (this.program.running) await this.program.stop();
    else if (this.processes().length > 0 && this.url !== "") {
      // It was killed, and PostgreSQL outlives it by design: the next server adopts and stops it.
      await this.restart();
      await this.program.stop();
    }
    try {
      refuseSecrets("the server", { directory: this.data, outputs: this.#programs.map(({ output }) => output) });
    } finally {
      rmSync(this.data, { recursive: true, force: true });
    }
  }
}

/** A database of the tests, as DATABASE_URL says it. */
export const databaseUrl = ({ host, port, user, database }: { host: string; port: number; user: string; database: string }): string =>
  `postgres://${user}@localhost:${port}/${database}?host=${encodeURIComponent(host)}`;
