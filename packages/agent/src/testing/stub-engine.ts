import fs from "node:fs";
import http from "node:http";
import os from "node:os";
import path from "node:path";
import { pino } from "pino";
import { systemClock } from "@roamfleet/clock";
import { Engine } from "../runtime/docker/engine.ts";
import { TIMING } from "../runtime/limits.ts";

type Answer = (request: http.IncomingMessage, response: http.ServerResponse) => void;

/**
 * A container engine whose responses a test determines. It is used for cases that are rare or slow
 * with a real engine.
 */
export class StubEngine implements AsyncDisposable {
  readonly #directory = fs.mkdtempSync(path.join(os.tmpdir(), "rf-stub-"));
  readonly #server: http.Server;
  readonly socket = path.join(this.#directory, "engine.sock");
  readonly engine: Engine;
  /** Method and path of all requests except pings. */
  readonly requests: string[] = [];

  private constructor(answer: Answer) {
    this.#server = http.createServer((request, response) => {
      if (request.url === "/_ping") return void response.end("OK");
      this.requests.push(`${request.method} ${request.url}`);
      answer(request, response);
    });
    const quiet = (): void => {};
    const log = pino({ level: "silent" });
    this.engine = new Engine({ sockets: [this.socket], clock: systemClock, timing: TIMING, log, on_answer: quiet });
  }

  static async start(answer: Answer): Promise<StubEngine> {
    const stub = new StubEngine(answer);
    await new Promise<void>((resolve) => stub.#server.listen(stub.socket, resolve));
    return stub;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.engine.close();
    this.#server.closeAllConnections();
    await new Promise((resolve) => this.#server.close(resolve));
    fs.rmSync(this.#directory, { recursive: true });
  }
}
