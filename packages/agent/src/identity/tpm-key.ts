import { type ChildProcess, execFile } from "node:child_process";
import { createPublicKey } from "node:crypto";
import { existsSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import { fieldsOf } from "../json.ts";
import { makeDirectory, renameDurably, syncDirectory, syncFile } from "../disk/write-atomically.ts";
import { findProgram, SYSTEM_PATH } from "../runtime/spawn-child.ts";
import type { RobotKey } from "./robot-key.ts";

/**
 * A key in the robot's TPM, used by the commands of tpm2-tools. The TPM made it and never shows the private half: the files in the state
 * directory are encrypted with a key of this TPM, so that a copy of the disk is useless on another machine.
 */

/** The kernel's TPM device with a resource manager, which removes the objects of a program that has ended. */
const DEVICE = "/dev/tpmrm0";
/** Maximum time of one command. The slowest one, which derives the parent key, takes a second on old TPMs. */
const COMMAND_MS_MAX = 8_000;
const OUTPUT_BYTES_MAX = 64 * 1024;
/** `noda`: wrong passwords for other objects of the TPM do not block these keys. */
const PARENT = "fixedtpm|fixedparent|sensitivedataorigin|userwithauth|noda|restricted|decrypt";
const SIGNER = "fixedtpm|fixedparent|sensitivedataorigin|userwithauth|noda|sign";
const POINT_BYTES = 65;

type Environment = Readonly<Record<string, string>>;

const directoryOf = (state_directory: string): string => join(state_directory, "identity", "tpm");

/** Returns why this robot cannot keep a key in a TPM; undefined if it can. */
export function whyNoTpm(environment: Environment): string | undefined {
  if (environment.TPM2TOOLS_TCTI === undefined && !existsSync(DEVICE)) return `this robot has no TPM (${DEVICE} does not exist)`;
  if (findProgram("tpm2_sign", environment.PATH ?? SYSTEM_PATH) === undefined) return "the package tpm2-tools is not installed";
  return undefined;
}

/** Whether this robot's key was made in a TPM. */
export const hasTpmKey = (state_directory: string): boolean => existsSync(directoryOf(state_directory));

/** Makes a key in the TPM. Rejects with the TPM's error; then no key exists. */
export async function makeTpmKey(state_directory: string, environment: Environment): Promise<void> {
  const directory = directoryOf(state_directory);
  const building = `${directory}.new`;
  rmSync(building, { recursive: true, force: true });
  makeDirectory(building);
  try {
    const tpm = new Tpm(building, environment);
    await tpm.makeParent();
    await tpm.run("tpm2_create", ["-C", "parent.ctx", "-G", "ecc256:ecdsa-sha256", "-a", SIGNER, "-u", "key.pub", "-r", "key.priv"]);
    await tpm.load();
    await tpm.run("tpm2_readpublic", ["-c", "key.ctx", "-f", "pem", "-o", "key.pem"]);
    for (const file of ["key.pub", "key.priv", "key.pem"]) syncFile(join(building, file), 0o600);
    syncDirectory(building);
    renameDurably(building, directory);
  } catch (error) {
    rmSync(building, { recursive: true, force: true });
    throw error;
  }
}

/** Opens the robot's key. Does not use the TPM yet: without its TPM the agent still runs the robot's apps, but cannot connect. */
export function openTpmKey(state_directory: string, environment: Environment): RobotKey {
  const directory = directoryOf(state_directory);
  const tpm = new Tpm(directory, environment);
  let last: Promise<unknown> = Promise.resolve();
  return {
    place: "tpm",
    public_key: readPublicKey(join(directory, "key.pem")),
    sign: (text) => {
      // One signature at a time: a TPM has room for only a few loaded keys.
      const signature = last.then(() => tpm.sign(text));
      last = signature.catch(() => {});
      return signature;
    },
  };
}

function readPublicKey(path: string): string {
  const key = createPublicKey(readFileSync(path, "utf8"));
  if (key.asymmetricKeyDetails?.namedCurve !== "prime256v1") throw new Error(`${path} does not contain a P-256 key`);
  // The SPKI encoding ends with the public point.
  return key.export({ type: "spki", format: "der" }).subarray(-POINT_BYTES).toString("base64");
}

class Tpm {
  readonly #directory: string;
  readonly #environment: Environment;

  constructor(directory: string, environment: Environment) {
    this.#directory = directory;
    this.#environment = { TPM2TOOLS_TCTI: `device:${DEVICE}`, ...environment };
  }

  /** Derives the key that encrypts the robot's key. The TPM derives the same one each time, until it is cleared. */
  async makeParent(): Promise<void> {
    await this.run("tpm2_createprimary", ["-C", "o", "-G", "ecc256", "-a", PARENT, "-c", "parent.ctx"]);
  }

  async load(): Promise<void> {
    await this.run("tpm2_load", ["-C", "parent.ctx", "-u", "key.pub", "-r", "key.priv", "-c", "key.ctx"]);
  }

  /** Returns the ECDSA signature in DER, as base64. */
  async sign(text: string): Promise<string> {
    const signature = await this.#sign(text).catch(async () => {
      // A saved context is valid until the machine restarts.
      await this.makeParent();
      await this.load();
      return this.#sign(text);
    });
    return signature.toString("base64");
  }

  async #sign(text: string): Promise<Buffer> {
    // The command cannot write to the sockets that Node.js uses as pipes, so it writes a file.
    await this.run("tpm2_sign", ["-c", "key.ctx", "-g", "sha256", "-f", "plain", "-o", "signature"], text);
    return readFileSync(join(this.#directory, "signature"));
  }

  /** Runs a command of tpm2-tools in the key's directory. */
  async run(program: string, args: readonly string[], input = ""): Promise<void> {
    await this.#execute(program, ["-Q", ...args], input);
    // Without a resource manager, objects stay in the TPM until they are removed.
    if (!this.#environment.TPM2TOOLS_TCTI!.startsWith("device:/dev/tpmrm")) await this.#execute("tpm2_flushcontext", ["-t"], "");
  }

  async #execute(program: string, args: readonly string[], input: string): Promise<void> {
    const running = promisify(execFile)(program, args, {
      cwd: this.#directory,
      env: this.#environment,
      timeout: COMMAND_MS_MAX,
      killSignal: "SIGKILL",
      maxBuffer: OUTPUT_BYTES_MAX,
    });
    giveInput(running.child, input);
    await running.catch((error: unknown) => {
      throw new Error(`the TPM: ${describe(program, error)}`);
    });
  }
}

function giveInput({ stdin }: ChildProcess, input: string): void {
  // The command may end before it has read its input. The exit code then shows that it failed.
  stdin?.on("error", () => {});
  stdin?.end(input);
}

/** Describes why a command failed: by the first error that it printed, or by its exit code. */
function describe(program: string, error: unknown): string {
  const { stderr, killed, message } = fieldsOf(error);
  if (killed === true) return `${program} did not end within ${COMMAND_MS_MAX / 1_000} s`;
  const text = typeof stderr === "string" ? stderr : "";
  // TPM_RC_INTEGRITY: the key was encrypted by another TPM, or by this TPM before it was cleared.
  if (text.includes("integrity check failed"))
    return "this key belongs to another TPM, or the TPM was cleared: use a new state directory, and replace the robot's computer by `rf robots replace`";
  const errors = text.split("\n").filter((line) => line.startsWith("ERROR: "));
  return `${program}: ${errors[0]?.slice("ERROR: ".length) ?? String(message).split("\n")[0]}`;
}
