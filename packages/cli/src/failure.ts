import { ApiError, Unreachable } from "@roamfleet/sdk";
import { CommanderError } from "commander";
import { EXIT, type ExitCode } from "./exit-codes.ts";
import { plain } from "./text.ts";

/** A command's failure: message, hints, exit code, and the document that `--json` prints. */
export class Failure extends Error {
  override readonly name = "Failure";
  readonly exit_code: ExitCode;
  /** What to do next, one hint per line. */
  readonly hints: readonly string[];
  /** The document that `--json` writes to stdout; undefined writes none. */
  readonly document: unknown;
  /** Whether the message is printed without the prefix `error:`, because its exact text is specified or it is not an error. */
  readonly bare: boolean;

  constructor(
    exit_code: ExitCode,
    message: string,
    options: { hints?: string[]; document?: unknown; bare?: boolean; cause?: unknown } = {},
  ) {
    super(message, { cause: options.cause });
    this.exit_code = exit_code;
    this.hints = options.hints ?? [];
    this.document = "document" in options ? options.document : { error: { code: CODES[exit_code], message } };
    this.bare = options.bare ?? false;
  }
}

const CODES: Record<ExitCode, string> = {
  0: "ok",
  1: "error",
  2: "usage",
  4: "unauthorized",
  5: "not_found",
  6: "conflict",
  7: "agent_offline",
  8: "not_applied",
  130: "interrupted",
};

export const usage = (message: string, ...hints: string[]): Failure => new Failure(EXIT.usage, message, { hints });

/**
 * Converts any error to a Failure. `base_url_source`: where the address that is unreachable was configured. `pinned`: fingerprint of the
 * only certificate authority trusted at that address.
 */
export function toFailure(error: unknown, base_url_source?: string, pinned?: string): Failure {
  if (error instanceof Failure) return error;
  if (error instanceof CommanderError) return fromCommander(error);
  if (error instanceof ApiError) return fromApi(error);
  if (error instanceof Unreachable) return fromUnreachable(error, base_url_source, pinned);
  if (isFileError(error)) return new Failure(EXIT.error, `${error.path}: ${FILE_ERRORS[error.code] ?? error.code}`, { cause: error });
  const message = error instanceof Error ? error.message : String(error);
  return new Failure(EXIT.error, message || "unknown error", {
    cause: error,
    hints: ["Set ROAMFLEET_DEBUG=1 to print the stack trace."],
  });
}

const FILE_ERRORS: Record<string, string> = {
  ENOENT: "no such file or directory",
  EACCES: "permission denied",
  EPERM: "permission denied",
  EISDIR: "is a directory",
  ENOTDIR: "a part of the path is not a directory",
  ENOSPC: "the disk is full",
  EROFS: "the file system is read-only",
};

const isFileError = (error: unknown): error is Error & { code: string; path: string } =>
  error instanceof Error && "path" in error && "code" in error && typeof error.path === "string" && typeof error.code === "string";

function fromCommander(error: CommanderError): Failure {
  const [first = "", ...more] = error.message.replace(/^error: /, "").split("\n");
  return usage(first, ...more.map((text) => text.replace(/^\((.*)\)$/, "$1")).filter((text) => text !== ""));
}

const STATUS_EXITS: Record<number, ExitCode> = { 401: EXIT.auth, 403: EXIT.auth, 404: EXIT.not_found, 409: EXIT.conflict };

function fromApi(error: ApiError): Failure {
  const document =
    typeof error.body === "object" && error.body !== null ? error.body : { error: { code: error.code, message: error.message } };
  return new Failure(STATUS_EXITS[error.status] ?? EXIT.error, error.message, { hints: apiHints(error), document, cause: error });
}

/** The command that lists the objects of each kind. The kind is found at the start of the server's error message. */
const LISTS: [RegExp, string][] = [
  [/^robot\b/, "rf robots list"],
  [/^release\b/, "rf releases list"],
  [/^config deployment\b/, "rf configs deployments"],
  [/^config\b/, "rf configs list"],
  [/^deployment\b/, "rf deployments list"],
  [/^fleet\b/, "rf fleets list"],
  [/^site\b/, "rf sites list"],
  [/^enroll?lment key\b/, "rf keys list"],
  [/^user\b/, "rf users list"],
  [/^token\b/, "rf tokens list"],
  [/^alert rule\b/, "rf alerts list"],
  [/^alert mute\b/, "rf alerts mutes"],
  [/^incident\b/, "rf incidents list"],
  [/^org\b/, "rf orgs list"],
];

function apiHints(error: ApiError): string[] {
  if (error.status === 401) return ["Run `rf login` to save a valid token, or set ROAMFLEET_TOKEN."];
  if (error.status === 403) return ["`rf whoami` shows your user and role."];
  if (error.status === 429) return [`Try again in ${Math.ceil(error.retry_after_seconds ?? 10)} s.`];
  if (error.status === 503)
    return [
      `Try again in ${Math.ceil(error.retry_after_seconds ?? 10)} s. If the call changes something, check first whether it took effect.`,
    ];
  if (error.status === 404) {
    const list = LISTS.find(([kind]) => kind.test(error.message));
    return list === undefined ? [] : [`To see what exists, run \`${list[1]}\`.`];
  }
  if (error.status >= 500 && error.request_id !== undefined)
    return [`Details are in the server's log under request ${plain(error.request_id)}.`];
  return [];
}

function fromUnreachable(error: Unreachable, source: string | undefined, pinned: string | undefined): Failure {
  if (pinned !== undefined && error.untrusted) return changedAuthority(error, pinned);
  const hints = source === undefined ? [] : [`The address is from ${source}.`];
  if (error.untrusted)
    hints.push(`\`rf login --base-url ${error.base_url}\` shows the server's certificate authority, which you can then trust.`);
  else if (error.reason.includes("CERT")) hints.push("The address must be listed in the server's certificate.");
  else hints.push("Check that the server runs (`roamfleet serve`) and that the address is correct (`--base-url`, `rf login`).");
  return new Failure(EXIT.error, error.message, {
    hints,
    document: { error: { code: "unreachable", message: error.message } },
    cause: error,
  });
}

function changedAuthority({ base_url }: Unreachable, pinned: string): Failure {
  const message = `${base_url} presents a different certificate authority than the one you trusted`;
  return new Failure(EXIT.auth, message, {
    hints: [
      `Trusted: ${pinned}`,
      "The connection may be intercepted. If the server has a new certificate authority, pass the fingerprint that `roamfleet fingerprint` prints on the server:",
      `rf login --base-url ${base_url} --fingerprint sha256:…`,
    ],
    document: { error: { code: "untrusted_authority", message } },
  });
}
