import { createPrivateKey, createPublicKey, generateKeyPairSync, type KeyObject, sign } from "node:crypto";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { arch, hostname, platform, release } from "node:os";
import type { Logger } from "pino";
import type { Platform } from "@roamfleet/protocol/link";
import { errorText, makeDirectory, readJson, writeAtomically, writeJson, readIfExists } from "../disk/write-atomically.ts";
import { fieldsOf } from "../json.ts";
import type { RobotKey, TpmMode } from "./robot-key.ts";
import { hasTpmKey, makeTpmKey, openTpmKey, whyNoTpm } from "./tpm-key.ts";

/** The robot's identity after enrollment. */
export interface Enrollment {
  robot_id: string;
  org_id: string;
  name: string;
}

const keyFile = (state_directory: string): string => join(state_directory, "identity", "key.pem");
export const enrollmentFile = (state_directory: string): string => join(state_directory, "identity", "robot.json");

interface KeyOptions {
  state_directory: string;
  tpm: TpmMode;
  /** Environment of the commands that use the TPM. */
  environment: Readonly<Record<string, string>>;
  log: Pick<Logger, "info" | "warn">;
}

/**
 * Opens the robot's key, or creates it. A key stays in the file or the TPM where it was created, since with a new key the robot would
 * enroll as another robot. Rejects if the key's file is damaged, and if a TPM is required but the key is not in one.
 */
export async function openKey({ state_directory, tpm, environment, log }: KeyOptions): Promise<RobotKey> {
  if (hasTpmKey(state_directory)) return openTpmKey(state_directory, environment);
  const file = keyFile(state_directory);
  const has_file = existsSync(file);
  if (has_file && tpm === "required")
    throw new Error(`the robot's key is in ${file}, but a TPM is required: use a new state directory, and enroll again`);
  if (has_file || tpm === "off") return openFileKey(state_directory);
  const why_not = whyNoTpm(environment);
  if (why_not !== undefined) {
    if (tpm === "required") throw new Error(`the robot's key must be in a TPM, but ${why_not}`);
    log.info({ reason: why_not }, "the robot's key is in a file");
    return openFileKey(state_directory);
  }
  try {
    await makeTpmKey(state_directory, environment);
    log.info("the robot's key was made in its TPM");
    return openTpmKey(state_directory, environment);
  } catch (error) {
    if (tpm === "required") throw error;
    log.warn({ reason: errorText(error) }, "no key could be made in the TPM: the robot's key is in a file");
    return openFileKey(state_directory);
  }
}

/**
 * Reads the robot's private key from the state directory, or creates it with mode 0600. The key is on disk before it is used, so an
 * enrollment whose response was lost is repeated with the same key. Throws if the file is not an Ed25519 key.
 */
export function openFileKey(state_directory: string): RobotKey {
  const path = keyFile(state_directory);
  const private_key = readKey(path) ?? makeKey(state_directory, path);
  const der = createPublicKey(private_key).export({ type: "spki", format: "der" });
  return {
    place: "file",
    // The SPKI encoding of an Ed25519 key is a fixed prefix followed by the raw key.
    public_key: der.subarray(-32).toString("base64"),
    sign: async (text) => sign(null, Buffer.from(text), private_key).toString("base64"),
  };
}

function readKey(path: string): KeyObject | undefined {
  const pem = readIfExists(path);
  if (pem === undefined) return undefined;
  const key = parseKey(pem.toString("utf8"));
  if (key?.asymmetricKeyType !== "ed25519")
    throw new Error(`${path} does not contain an Ed25519 key; restore it, or remove the state directory and enroll again`);
  return key;
}

function parseKey(pem: string): KeyObject | undefined {
  try {
    return createPrivateKey(pem);
  } catch {
    return undefined;
  }
}

function makeKey(state_directory: string, path: string): KeyObject {
  makeDirectory(join(state_directory, "identity"));
  const { privateKey } = generateKeyPairSync("ed25519");
  writeAtomically(path, privateKey.export({ type: "pkcs8", format: "pem" }).toString(), 0o600);
  return privateKey;
}

/**
 * Reads the stored enrollment. Returns undefined if there is none or the file is damaged. Enrolling again then returns the same identity.
 */
export function readEnrollment(state_directory: string, damaged: () => void = () => {}): Enrollment | undefined {
  return parseEnrollment(readJson(enrollmentFile(state_directory), damaged));
}

export function writeEnrollment(state_directory: string, enrollment: Enrollment): void {
  writeJson(enrollmentFile(state_directory), enrollment);
}

/** Parses `{robot_id, org_id, name}` from the server's response or the stored file. Returns undefined for any other value. */
export function parseEnrollment(value: unknown): Enrollment | undefined {
  const { robot_id, org_id, name } = fieldsOf(value);
  if (typeof robot_id !== "string" || robot_id === "" || typeof org_id !== "string" || typeof name !== "string") return undefined;
  return { robot_id, org_id, name };
}

export function readPlatform(system_root: string): Platform {
  return { os: osName(system_root).slice(0, 200), arch: arch(), hostname: hostname().slice(0, 255), kernel: release().slice(0, 200) };
}

function osName(system_root: string): string {
  try {
    const text = readFileSync(join(system_root, "etc/os-release"), "utf8");
    const name = /^PRETTY_NAME="?([^"\n]+)"?$/m.exec(text)?.[1];
    return name ?? platform();
  } catch {
    return platform();
  }
}

/** Returns the id that the kernel assigned to the current boot; `unknown` if the kernel does not provide one. */
export function readBootId(system_root: string): string {
  try {
    return readFileSync(join(system_root, "proc/sys/kernel/random/boot_id"), "utf8").trim() || "unknown";
  } catch {
    return "unknown";
  }
}
