import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { until } from "@roamfleet/clock/testing";
import { freePort } from "@roamfleet/clock/testing/free-port";

const is_installed = spawnSync("prometheus", ["--version"]).status === 0;
/** Option of a test that needs Prometheus. */
export const SKIP_WITHOUT_PROMETHEUS = { skip: is_installed ? false : "prometheus is not installed" };

interface Matrix {
  data: { result: { metric: Record<string, string>; values: [seconds: number, value: string][] }[] };
}

/** Debian's Prometheus as a receiver of remote write. Its data survive `kill` and `start`. */
export class PrometheusProcess implements AsyncDisposable {
  readonly port: number;
  readonly #directory = mkdtempSync(path.join(tmpdir(), "roamfleet-prometheus-"));
  #child: ChildProcess | undefined;

  private constructor(port: number, out_of_order_time_window: string) {
    this.port = port;
    writeFileSync(
      path.join(this.#directory, "prometheus.yml"),
      `storage: { tsdb: { out_of_order_time_window: ${out_of_order_time_window} } }\n`,
    );
  }

  static async start({ out_of_order_time_window = "8d" } = {}): Promise<PrometheusProcess> {
    const prometheus = new PrometheusProcess(await freePort(), out_of_order_time_window);
    await prometheus.start();
    return prometheus;
  }

  get url(): string {
    return `http://127.0.0.1:${this.port}`;
  }

  get write_url(): string {
    return `${this.url}/api/v1/write`;
  }

  async start(): Promise<void> {
    this.#child = spawn(
      "prometheus",
      [
        `--config.file=${this.#directory}/prometheus.yml`,
        `--storage.tsdb.path=${this.#directory}/data`,
        `--web.listen-address=127.0.0.1:${this.port}`,
        "--web.enable-remote-write-receiver",
        "--log.level=error",
      ],
      { stdio: "ignore" },
    );
    await until("Prometheus to be ready", async () => (await fetch(`${this.url}/-/ready`)).ok, { despite_errors: true });
  }

  async kill(): Promise<void> {
    const child = this.#child;
    this.#child = undefined;
    if (child === undefined || child.exitCode !== null) return;
    child.kill("SIGKILL");
    await once(child, "exit");
  }

  /** Returns all samples that a selector matches in the `range` before `at`, as [milliseconds, value]. */
  async samples(selector: string, at: Date, range = "1d"): Promise<{ labels: Record<string, string>; samples: [number, number][] }[]> {
    const query = new URLSearchParams({ query: `${selector}[${range}]`, time: String(at.getTime() / 1_000) });
    const response = await fetch(`${this.url}/api/v1/query`, { method: "POST", body: query });
    const { data } = (await response.json()) as Matrix;
    return data.result.map(({ metric, values }) => ({
      labels: metric,
      samples: values.map(([seconds, value]) => [Math.round(seconds * 1_000), Number(value)]),
    }));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.kill();
    rmSync(this.#directory, { recursive: true, force: true });
  }
}
