import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { until } from "@roamfleet/clock/testing";
import { type Program, ROOT } from "./process.ts";

/** What a process holds once its garbage is collected: bytes, and how many files and sockets are open. */
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

/** Asks programs that were started with its environment what they hold. */
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

  /** The least of a few: what is in the air at one moment is not held. */
  async least(program: Program): Promise<Measure> {
    return leastOf([await this.of(program), await this.of(program), await this.of(program)]);
  }

  [Symbol.dispose](): void {
    rmSync(this.#directory, { recursive: true, force: true });
  }
}
