import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { until } from "@roamfleet/clock/testing";
import { type Program, ROOT } from "./process.ts";

/** The resources of a process after a garbage collection: bytes, and the number of open files and sockets. */
export interface Measure {
  /** Objects and buffers. */
  heap: number;
  rss: number;
  descriptors: number;
}

export function leastOf(measures: readonly Measure[]): Measure {
  const least = (field: keyof Measure): number => Math.min(...measures.map((one) => one[field]));
  return { heap: least("heap"), rss: least("rss"), descriptors: least("descriptors") };
}

/** Measures the resources of programs that were started with `env`. */
export class Measures implements Disposable {
  readonly env: Record<string, string>;
  readonly #directory = mkdtempSync(path.join(tmpdir(), "roamfleet-measures-"));
  readonly #file = path.join(this.#directory, "measure.json");

  constructor() {
    const preload = path.join(ROOT, "tests", "processes", "measured.ts");
    this.env = { NODE_OPTIONS: `--expose-gc --import=${preload}`, ROAMFLEET_TEST_MEASURES: this.#file };
  }

  async of({ child }: Program): Promise<Measure> {
    rmSync(this.#file, { force: true });
    child.kill("SIGUSR2");
    await until("the program's measures", () => existsSync(this.#file));
    return JSON.parse(readFileSync(this.#file, "utf8")) as Measure;
  }

  /** Returns the smallest of several measurements, to exclude temporary allocations. */
  async least(program: Program): Promise<Measure> {
    return leastOf([await this.of(program), await this.of(program), await this.of(program)]);
  }

  [Symbol.dispose](): void {
    rmSync(this.#directory, { recursive: true, force: true });
  }
}
