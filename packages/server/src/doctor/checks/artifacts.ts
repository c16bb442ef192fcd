import path from "node:path";
import { probeS3, type S3Seen, type S3Step } from "../../engines/blobs/index.ts";
import type { Settings } from "../../config.ts";
import { type Check, ok, problem, type Seen, shownTime, skipped, warning } from "../finding.ts";
import { writeDenied } from "../../data-directory.ts";
import { exists } from "../../kernel/files.ts";

const CLOCK_WARNING_MS = 60_000;
const LOOPBACK = /^http:\/\/(localhost|127\.|\[::1\])/;

export const artifactsCheck: Check = {
  name: "artifacts",
  async check({ settings, wrong_parts, clock, signal }) {
    if (wrong_parts.has("artifacts")) return [skipped("not checked: first fix the problem in settings")];
    if (settings.blobs === undefined) return await lookAtDirectory(settings);
    return evaluateS3(await probeS3(settings.blobs, { clock, signal }), settings.blobs);
  },
};

async function lookAtDirectory({ data_directory }: Settings): Promise<Seen[]> {
  const directory = path.resolve(data_directory, "blobs");
  const there = await exists(directory);
  if (!there) return [ok(`${directory} is created at the first start`)];
  const denied = await writeDenied(directory);
  if (denied === undefined) return [ok(directory)];
  return [problem(`${directory} cannot be written (${denied})`, "the directory must belong to the user who starts the server")];
}

/** The permission that each S3 operation needs, by Amazon's names. Other stores use the same names, or a single permission. */
const PERMISSIONS: Readonly<Record<S3Step, string>> = {
  list: "s3:ListBucket",
  write: "s3:PutObject",
  read: "s3:GetObject",
  copy: "s3:GetObject and s3:PutObject",
  "start a multipart upload": "s3:PutObject",
  "copy a part": "s3:GetObject and s3:PutObject",
  "complete an upload": "s3:PutObject",
  "list uploads": "s3:ListBucketMultipartUploads",
  delete: "s3:DeleteObject",
};

type Place = NonNullable<Settings["blobs"]>;

const DENIED = new Set(["AccessDenied", "Forbidden"]);

export function evaluateS3(seen: S3Seen, place: Place): Seen[] {
  const where = `s3://${place.bucket}${place.prefix === "" ? "" : `/${place.prefix}`} at ${place.endpoint ?? `Amazon, ${place.region}`}`;
  const found: Seen[] = seen.failed.map(({ step, error }) => {
    if (DENIED.has(error.reason))
      return problem(`${where}: no permission to ${step}`, `grant the credentials ${PERMISSIONS[step]} below the prefix`);
    return problem(
      `${where}: ${error.message}`,
      HINTS[error.reason] ?? "compare ROAMFLEET_BLOBS_URL and AWS_… with the settings of the store",
    );
  });
  if (seen.left.length > 0)
    found.push(
      warning(
        `test objects of this check could not be removed: ${seen.left.join(", ")}`,
        "remove these objects by hand: they are below the prefix",
      ),
    );
  const ahead = seen.clock_ahead_ms;
  if (ahead !== undefined && Math.abs(ahead) > CLOCK_WARNING_MS)
    found.push(
      warning(
        `the store's clock is ${shownTime(Math.abs(ahead))} ${ahead > 0 ? "ahead of" : "behind"} this machine's`,
        "set this machine's clock by NTP (timedatectl): stores refuse all requests if the difference is over 15 minutes",
      ),
    );
  if (place.endpoint?.startsWith("http:") === true && !LOOPBACK.test(place.endpoint))
    found.push(
      warning(
        `artifacts are transferred to and from ${place.endpoint} unencrypted`,
        "use an endpoint with https://, unless the network is private",
      ),
    );
  if (found.some(({ status }) => status === "problem")) return found;
  return [ok(`${where}: a test object was written in ${shownTime(seen.write_ms ?? 0)}, read, copied, combined and removed`), ...found];
}

const HINTS: Readonly<Record<string, string>> = {
  NoSuchBucket: "create the bucket, or correct its name in ROAMFLEET_BLOBS_URL",
  ECONNREFUSED: "nothing listens there: correct endpoint= in ROAMFLEET_BLOBS_URL",
  ENOTFOUND: "there is no such host: correct endpoint= in ROAMFLEET_BLOBS_URL, or add path_style=1 if buckets are not host names",
  RequestTimeTooSkewed: "set this machine's clock by NTP (timedatectl)",
  NotImplemented: "this store lacks a required operation: choose another",
  DEPTH_ZERO_SELF_SIGNED_CERT: "to trust its certificate authority, set NODE_EXTRA_CA_CERTS to a PEM file with the authority's certificate",
  SELF_SIGNED_CERT_IN_CHAIN: "to trust its certificate authority, set NODE_EXTRA_CA_CERTS to a PEM file with the authority's certificate",
  UNABLE_TO_VERIFY_LEAF_SIGNATURE:
    "to trust its certificate authority, set NODE_EXTRA_CA_CERTS to a PEM file with the authority's certificate",
};
