import type { Clock } from "@roamfleet/clock";
import { failpoint } from "@roamfleet/clock/failpoint";
import type { Logger } from "pino";
import { parseSignedText, type SignedText } from "@roamfleet/protocol/signatures";
import type { AgentConfig } from "../config.ts";
import { errorText } from "../disk/write-atomically.ts";
import { envelopeMessage, type HttpClient, readText } from "../http/request.ts";
import { fieldsOf, parseObject } from "../json.ts";
import { pinAtEnrollment } from "../signing/pinned-trust.ts";
import { backoffMs, retryAfterMs } from "../link/backoff.ts";
import { type Enrollment, parseEnrollment, readEnrollment, readPlatform, writeEnrollment } from "./identity.ts";
import type { RobotKey } from "./robot-key.ts";

/** The server refuses to enroll this robot, and a retry would not change that. */
export class EnrollmentRefused extends Error {}
/** The robot has neither a stored enrollment nor an enrollment key. */
export class NotEnrolled extends Error {}

const ANSWER_BYTES_MAX = 64 * 1024;

export interface EnrollOptions {
  config: AgentConfig;
  key: RobotKey;
  clock: Clock;
  log: Logger;
  http: HttpClient;
  /** Aborts the retries while the server is unreachable. */
  signal: AbortSignal;
}

/**
 * Returns the robot's stored identity, or enrolls with the key in the config to get a new one. Retries until the server responds. The
 * server identifies a robot by its public key: if the response to an enrollment is lost, the next attempt returns the same identity.
 */
export async function enroll(options: EnrollOptions): Promise<Enrollment> {
  const { config, clock, log, signal } = options;
  const known = readEnrollment(config.state_directory, () => log.warn("the enrollment on disk is damaged, enrolling again"));
  if (known !== undefined) return known;
  if (config.enroll_key === undefined) {
    throw new NotEnrolled(`${config.state_directory} contains no enrolled robot: pass --enroll-key KEY (created by \`rf keys new\`)`);
  }
  for (let attempt = 0; ; attempt += 1) {
    failpoint("enrol:before-request", "step");
    const result = await askOnce(options, config.enroll_key);
    failpoint("enrol:answered", "step");
    if ("enrollment" in result) {
      // Store the trusted signing keys before the enrollment. In the opposite order, a crash in between would leave an enrolled robot
      // without keys, which would trust any key.
      pinAtEnrollment(config.state_directory, result.enrollment.org_id, result.trust);
      writeEnrollment(config.state_directory, result.enrollment);
      log.info({ robot_id: result.enrollment.robot_id, name: result.enrollment.name, server: config.server }, "enrolled");
      return result.enrollment;
    }
    const wait_ms = result.retry_after_ms ?? backoffMs(clock, attempt);
    log.warn({ server: config.server, reason: result.reason, wait_ms }, "could not enroll, trying again");
    await clock.sleep(wait_ms, signal);
    signal.throwIfAborted();
  }
}

type Asked = { enrollment: Enrollment; trust: SignedText | null } | { reason: string; retry_after_ms?: number | undefined };

type AskOptions = Pick<EnrollOptions, "clock" | "http" | "signal"> & {
  config: Pick<AgentConfig, "server" | "name" | "labels" | "system_root">;
  key: Pick<RobotKey, "public_key">;
};

/**
 * Sends one enrollment request. Returns the enrollment, or why the request should be retried. Throws EnrollmentRefused, or another Error if
 * a retry cannot help.
 */
export async function askOnce({ config, key, clock, http, signal }: AskOptions, enroll_key: string): Promise<Asked> {
  let status: number;
  let text: string;
  let retry_after_ms: number | undefined;
  try {
    const body = {
      key: enroll_key,
      public_key: key.public_key,
      ...(config.name === undefined ? {} : { name: config.name }),
      ...(Object.keys(config.labels).length === 0 ? {} : { labels: config.labels }),
      platform: readPlatform(config.system_root),
    };
    const answer = await http({
      method: "POST",
      url: `${config.server}/agent/enroll`,
      headers: { "content-type": "application/json", accept: "application/json" },
      body: JSON.stringify(body),
      signal,
    });
    status = answer.status;
    retry_after_ms = retryAfterMs(answer.headers.get("retry-after"), answer.headers.get("date"), clock);
    text = await readText(answer, ANSWER_BYTES_MAX);
  } catch (error) {
    signal.throwIfAborted();
    return { reason: errorText(error) };
  }
  if (status === 200 || status === 201) {
    const data = fieldsOf(parseObject(text)?.["data"]);
    const enrollment = parseEnrollment(data);
    if (enrollment === undefined) return { reason: "the response to the enrollment contains no robot" };
    return { enrollment, trust: parseSignedText(data["trust"]) ?? null };
  }
  const message = envelopeMessage(text) ?? `HTTP status ${status}`;
  if (status === 401 || status === 403) throw new EnrollmentRefused(`the server refused the enrollment key: ${message}`);
  if (status >= 500 || status === 429 || status === 408) return { reason: message, retry_after_ms };
  throw new Error(`${config.server} did not enroll this robot: ${message}`);
}
