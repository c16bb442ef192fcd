import { spawn } from "node:child_process";
import { mkdir, mkdtemp, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { buildCli } from "../../packages/cli/build.ts";
import { ADMIN_TOKEN, type Harness, type HarnessOrg, startPlane } from "../harness/index.ts";
import { type Printed, Names } from "./transcript.ts";

/** Timeout of one line of a transcript. */
const LINE_MS_MAX = 60_000;

type Robot = Awaited<ReturnType<HarnessOrg["enrollRobot"]>>;

/** The bundled `rf` and a plane for the transcripts of one test file. */
export class Theatre implements AsyncDisposable {
  readonly directory: string;
  readonly plane: Harness;

  private constructor(directory: string, plane: Harness) {
    this.directory = directory;
    this.plane = plane;
  }

  static async open(): Promise<Theatre> {
    const directory = await mkdtemp(path.join(tmpdir(), "roamfleet-transcripts-"));
    const program = await buildCli(path.join(directory, "rf"));
    await mkdir(path.join(directory, "bin"));
    await symlink(program, path.join(directory, "bin", "rf"));
    // The program's first line finds node by its name.
    await symlink(process.execPath, path.join(directory, "bin", "node"));
    return new Theatre(directory, await startPlane({ limits: { health_seconds: 1, log_flush_ms: 20 } }));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.plane[Symbol.asyncDispose]();
    await rm(this.directory, { recursive: true, force: true });
  }
}

/** The surroundings of one transcript: a separate org and home directory. */
export class Stage {
  readonly names = new Names();
  readonly #theatre: Theatre;
  readonly #org: HarnessOrg;
  readonly #home: string;
  readonly #robots = new Map<string, Robot>();
  #env: Record<string, string>;

  private constructor(theatre: Theatre, org: HarnessOrg, home: string) {
    this.#theatre = theatre;
    this.#org = org;
    this.#home = home;
    const { url } = theatre.plane;
    this.#env = {
      PATH: `${path.join(theatre.directory, "bin")}:${process.env.PATH}`,
      HOME: home,
      LANG: "C.UTF-8",
      XDG_CONFIG_HOME: home,
      ROAMFLEET_TOKEN: org.admin_token,
      ROAMFLEET_BASE_URL: url,
      ROAMFLEET_ADMIN_TOKEN: ADMIN_TOKEN,
    };
    for (const [name, value] of Object.entries({ service: url, home, token: org.admin_token, "admin-token": ADMIN_TOKEN, org: org.id }))
      this.names.set(name, value);
  }

  static async set(theatre: Theatre, title: string): Promise<Stage> {
    const home = path.join(theatre.directory, title);
    await mkdir(home);
    return new Stage(theatre, await theatre.plane.org(`Acme ${title}`), home);
  }

  /** Runs a line in bash. The exit code is that of the first failure in a pipe. */
  run(line: string): Promise<Printed> {
    const args = ["-o", "pipefail", "-c", this.names.fill(line)];
    const child = spawn("bash", args, { cwd: this.#home, env: this.#env, stdio: ["ignore", "pipe", "pipe"], timeout: LINE_MS_MAX });
    const printed: Printed = { code: null, stdout: "", stderr: "" };
    child.stdout.setEncoding("utf8").on("data", (text: string) => (printed.stdout += text));
    child.stderr.setEncoding("utf8").on("data", (text: string) => (printed.stderr += text));
    return new Promise((resolve, reject) => {
      child.on("error", reject);
      child.on("close", (code) => resolve({ ...printed, code }));
    });
  }

  /** Performs a step that is not a command, such as a robot's report. */
  async act(text: string): Promise<void> {
    const [verb = "", subject = "", ...rest] = this.names.fill(text).split(" ");
    const words = rest.join(" ");
    switch (verb) {
      case "logged-out":
        this.#env = Object.fromEntries(Object.entries(this.#env).filter(([name]) => !/^ROAMFLEET_(TOKEN|BASE_URL)$/.test(name)));
        return;
      case "file":
        return writeFile(path.join(this.#home, subject), words);
      case "robot":
        await this.#enroll(subject, words);
        return;
      case "health":
        this.#robot(subject).sendHealth(HEALTH);
        return;
      case "metrics":
        this.#robot(subject).sendSamples({ cpu_percent: 12.5, memory_used_bytes: GIB });
        return;
      case "log":
        this.#robot(subject).log(words, { source: "demo" });
        return;
      case "fails":
        this.#robot(subject).behave({ failure: { at: "verifying", reason: "health_check_failed" } });
        return;
      case "waits":
        this.#robot(subject).behave({ stuck_at: "downloading" });
        return;
      case "offline":
        return this.#goOffline(this.#robot(subject));
      case "given-up":
        return this.#org.giveUp(subject);
      case "until":
        await this.#theatre.plane.until(text, async () => (await this.run([subject, words].join(" "))).code === 0);
        return;
      default:
        throw new Error(`a transcript knows no ${verb}`);
    }
  }

  async #enroll(name: string, fleet_id: string): Promise<void> {
    const robot = await this.#org.enrollRobot({ name, fleet_id, kinds: ["app_bundle", "file", "agent"] });
    this.#robots.set(name, robot);
    this.names.set(`${name}_id`, robot.id);
  }

  async #goOffline(robot: Robot): Promise<void> {
    await robot.disconnect();
    const status = async (): Promise<string> => (await this.#org.api.getRobot({ params: { id: robot.id } })).data.status;
    await this.#theatre.plane.until("the robot to be offline", async () => (await status()) === "offline");
  }

  #robot(name: string): Robot {
    const robot = this.#robots.get(name);
    if (robot === undefined) throw new Error(`there is no robot ${name}`);
    return robot;
  }
}

const GIB = 1024 ** 3;
/** A health snapshot that is the same in every run. */
const HEALTH = {
  uptime_seconds: 7_200,
  cpu: { percent: 12, load_1m: 0.5, cores: 4, temperature_celsius: 41 },
  memory: { used_bytes: GIB, total_bytes: 4 * GIB },
};
