import type { DesiredRelease } from "@roamfleet/protocol/link";
import {
  canonicalJson,
  checkSignedRelease,
  contentDigest,
  type ReleaseStatement,
  type SignatureCheck,
  type SignatureRefusal,
  type Trust,
} from "@roamfleet/protocol/signatures";

interface AdmissionCase {
  /** The signing keys that this robot trusts; undefined if it has never received any. */
  trust: Trust | undefined;
  history: SignedHistory | undefined;
  org_id: string;
  robot_id: string;
  /** The labels that the robot's agent was started with. */
  labels: Readonly<Record<string, string>>;
  /** The current time in milliseconds since 1970. If the history contains a later time, that one is used. */
  now_ms: number;
  app: string;
  release: DesiredRelease;
  /** The releases on the robot's disk, with the ids that the server gave them. */
  known: readonly DesiredRelease[];
}

type AdmissionVerdict = { release: DesiredRelease; statement: ReleaseStatement | undefined } | { refusal: SignatureRefusal };

/**
 * Decides whether a robot may install a release, without relying on the server. Returns the release with only the fields that its maker
 * signed. Pure.
 */
export function admitRelease(one: AdmissionCase): AdmissionVerdict {
  const { trust, history, org_id, app, release } = one;
  const is_signed = release.signature !== null && release.signature !== undefined;
  if (trust === undefined || (!trust.require_signature && !is_signed)) return { release, statement: undefined };
  const now_ms = Math.max(one.now_ms, history === undefined ? 0 : Date.parse(history.latest_issued_at));
  const verdict = checkSignedRelease({ org_id, app, release, signature: release.signature, keys: trust.keys, now_ms });
  if ("refusal" in verdict) return verdict;
  const { statement } = verdict;
  const refusal = refusalFor(one, statement) ?? refusalByHistory(history, statement) ?? refusalOfContent(one, statement);
  return refusal === undefined ? { release: asSigned(release, statement), statement } : { refusal };
}

const refuse = (check: SignatureCheck, message: string): SignatureRefusal => ({ check, message });

function refusalFor({ robot_id, labels }: AdmissionCase, { tag, robots, labels: wanted }: ReleaseStatement): SignatureRefusal | undefined {
  if (robots !== null && !robots.includes(robot_id))
    return refuse("other_robot", `release ${tag} was signed for robots other than ${robot_id}`);
  const missing = Object.entries(wanted ?? {}).find(([key, value]) => !Object.hasOwn(labels, key) || labels[key] !== value);
  if (missing === undefined) return undefined;
  return refuse(
    "other_robot",
    `release ${tag} was signed for robots that run with the label ${missing.join("=")}, which this robot does not have`,
  );
}

function refusalByHistory(history: SignedHistory | undefined, statement: ReleaseStatement): SignatureRefusal | undefined {
  if (history === undefined) return undefined;
  const { tag, version } = statement;
  if (version < history.minimum)
    return refuse("withdrawn", `release ${tag} has version ${version}, but versions below ${history.minimum} were withdrawn`);
  if (version > history.highest || history.ran.includes(contentDigest(statement))) return undefined;
  return refuse(
    "downgrade",
    `release ${tag} has version ${version}; this robot has already run version ${history.highest}, and never this release`,
  );
}

function refusalOfContent({ release, known }: AdmissionCase, { tag, image_configs }: ReleaseStatement): SignatureRefusal | undefined {
  // Files are stored under the release id, which the server assigns. If that id already exists with other content, the old files would run.
  if (known.some((other) => other.id === release.id && contentOf(other) !== contentOf(release)))
    return refuse("other_content", `release ${tag} has the id of another release that is on this robot`);
  const config = release.layers?.config.sha256;
  if (config === undefined || image_configs === null || image_configs.includes(config)) return undefined;
  return refuse("other_content", `the signature is not for release ${tag}: its archive contains another image`);
}

const contentOf = ({ tag, kind, artifact_sha256, artifact_size, image, manifest }: DesiredRelease): string =>
  canonicalJson({ tag, kind, artifact_sha256, artifact_size, image, manifest: manifest ?? null });

/**
 * Returns the release with only its id, its signed fields, its layers and its registry login. The layers were verified against the signed
 * fields. Other fields that a server adds do not reach an executor.
 */
function asSigned(release: DesiredRelease, { image_configs }: ReleaseStatement): DesiredRelease {
  const { id, tag, kind, artifact_sha256, artifact_size, image, manifest, signature, layers, registry_auth } = release;
  return {
    id,
    tag,
    kind,
    artifact_sha256,
    artifact_size,
    image,
    manifest,
    signature,
    ...(layers && image_configs !== null ? { layers: { config: layers.config, layers: layers.layers } } : {}),
    ...(registry_auth === undefined ? {} : { registry_auth }),
  };
}

/** The data of an app that the check of a signature needs. */
export interface GuardedApp {
  app: string;
  current: DesiredRelease | null;
  previous: DesiredRelease | null;
  signed?: SignedHistory | undefined;
}

/** Checks a release's signature before the release is installed. */
export interface Guard {
  /** True while this robot refuses unsigned releases. */
  readonly requires_signature: boolean;
  /**
   * Returns the release in the form that may be installed. If signatures are used, first queries the server for newer keys; with `asked`
   * "lately", only if the last query is not recent. Throws StepFailure (`signature_invalid`) with the failed check in its message, or
   * StepAborted.
   */
  admit(app: GuardedApp, release: DesiredRelease, options: { asked: "now" | "lately"; signal: AbortSignal }): Promise<DesiredRelease>;
  /** Returns the history of an app after this admitted release ran. */
  ran(history: SignedHistory | undefined, release: DesiredRelease): SignedHistory | undefined;
}

/** Which signed releases of an app ran on a robot. It is stored in the app's journal and updated after each successful change. */
export interface SignedHistory {
  /** Highest version that ran on this robot. */
  highest: number;
  /** Minimum version. A release that ran states that its maker has withdrawn all lower versions. */
  minimum: number;
  /** Latest signing time of the releases that ran. The current time cannot be earlier, whatever any clock shows. */
  latest_issued_at: string;
  /** Digests of the contents of releases that ran, newest last. */
  ran: string[];
}

/**
 * Maximum number of past releases per app that may be installed again although their version is not higher. A release that is evicted from
 * this list is refused, so the limit is safe.
 */
export const RAN_MAX = 64;

/** Returns the history with this release added. Its numbers never decrease. */
export function afterRun(history: SignedHistory | undefined, statement: ReleaseStatement): SignedHistory {
  const { highest = 0, minimum = 0, latest_issued_at = statement.issued_at, ran = [] } = history ?? {};
  const content = contentDigest(statement);
  return {
    highest: Math.max(highest, statement.version),
    minimum: Math.max(minimum, statement.minimum_version),
    latest_issued_at: Date.parse(statement.issued_at) > Date.parse(latest_issued_at) ? statement.issued_at : latest_issued_at,
    ran: [...ran.filter((one) => one !== content), content].slice(-RAN_MAX),
  };
}
