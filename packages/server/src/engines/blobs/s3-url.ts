/** A bucket and key prefix in an S3-compatible store. */
export interface S3Place {
  bucket: string;
  /** Prefix of every key, without slashes at its ends; "" for the whole bucket. */
  prefix: string;
  /** http or https URL of the store; undefined for Amazon S3. */
  endpoint: string | undefined;
  /** Region of the bucket. Undefined: taken from the environment. */
  region: string | undefined;
  /** True for path-style URLs, which have the bucket in the path instead of the host name. */
  path_style: boolean;
}

const EXAMPLE = "s3://bucket/prefix?endpoint=https://s3.example.com&region=eu-central-1&path_style=1";
const BUCKET = /^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$/;
/** One part of a prefix. It cannot start with a dot, which excludes `..`, and has no characters that URLs or headers must encode. */
const PREFIX_PART = /^[A-Za-z0-9_-][A-Za-z0-9._-]{0,127}$/;
const REGION = /^[a-z0-9-]{1,63}$/i;
const PARAMETERS: ReadonlySet<string> = new Set(["endpoint", "region", "path_style"]);

/**
 * Parses `s3://bucket/prefix?endpoint=…&region=…&path_style=1`. Throws an Error with a message for the user. The message never contains the
 * URL, because the URL may contain a secret.
 */
export function readS3Url(text: string): S3Place {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (url?.protocol !== "s3:") throw new Error(`expected ${EXAMPLE}`);
  if (url.username !== "" || url.password !== "")
    throw new Error("contains credentials: set them in AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, which are never shown");
  if (url.port !== "" || !BUCKET.test(url.hostname))
    throw new Error(`the bucket, right after s3://, must have 3 to 63 characters of a-z, 0-9, "." and "-"; expected ${EXAMPLE}`);
  if (url.hash !== "") throw new Error(`expected ${EXAMPLE}, without a fragment (#)`);
  const prefix = url.pathname.replace(/^\/+|\/+$/g, "");
  if (prefix !== "" && !prefix.split("/").every((part) => PREFIX_PART.test(part)))
    throw new Error(`the prefix, after the bucket, may only have letters, digits, ".", "_", "-" and "/"; expected ${EXAMPLE}`);
  const seen = new Set<string>();
  for (const name of url.searchParams.keys()) {
    if (!PARAMETERS.has(name)) throw new Error(`has an unknown parameter; valid parameters are ${[...PARAMETERS].join(", ")}`);
    if (seen.has(name)) throw new Error(`has the parameter ${name} twice`);
    seen.add(name);
  }
  return { bucket: url.hostname, prefix, ...readParameters(url.searchParams) };
}

function readParameters(parameters: URLSearchParams): Pick<S3Place, "endpoint" | "region" | "path_style"> {
  const endpoint = parameters.get("endpoint") ?? undefined;
  const region = parameters.get("region") ?? undefined;
  const path_style = parameters.get("path_style") ?? "0";
  if (endpoint !== undefined && !isEndpoint(endpoint))
    throw new Error("endpoint: expected the URL of the store, for example endpoint=https://s3.example.com:9000");
  if (region !== undefined && !REGION.test(region)) throw new Error("region: expected a name, for example region=eu-central-1");
  if (path_style !== "0" && path_style !== "1") throw new Error("path_style: expected 0 or 1");
  return { endpoint, region, path_style: path_style === "1" };
}

function isEndpoint(text: string): boolean {
  if (!URL.canParse(text)) return false;
  const { protocol, username, password, search, hash } = new URL(text);
  return (protocol === "http:" || protocol === "https:") && username + password + search + hash === "";
}
