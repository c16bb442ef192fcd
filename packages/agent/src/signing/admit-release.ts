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
import type { SignedHistory } from "./history.ts";

export interface AdmissionCase {
  /** undefined: this robot never heard of signing keys. */
  trust: Trust | undefined;
  history: SignedHistory | undefined;
  org_id: string;
  robot_id: string;
  /** As the robot's own command line has them. */
  labels: Readonly<Record<string, string>>;
  /** Milliseconds since 1970; what the history knows to be later counts. */
  now_ms: number;
  app: string;
  release: DesiredRelease;
  /** What lies on the robot's disk under the release ids that it came with. */
  known: readonly DesiredRelease[];
}

export type AdmissionVerdict = { release: DesiredRelease; statement: ReleaseStatement | undefined } | { refusal: SignatureRefusal };

/**
 * Whether a robot installs what a server, which it need not trust for this, tells it to. Answers the release cut down to
 * what its maker signed. Pure.
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
    return refuse("other_robot", `release ${tag} was signed for other robots than ${robot_id}`);
  const missing = Object.entries(wanted ?? {}).find(([key, value]) => !Object.hasOwn(labels, key) || labels[key] !== value);
  if (missing === undefined) return undefined;
  return refuse("other_robot", `release ${tag} was signed for robots that run with the label ${missing.join("=")}, and this one does not`);
}

function refusalByHistory(history: SignedHistory | undefined, statement: ReleaseStatement): SignatureRefusal | undefined {
  if (history === undefined) return undefined;
  const { tag, version } = statement;
  if (version < history.minimum)
    return refuse("withdrawn", `release ${tag} has version ${version}, and the maker withdrew what is below ${history.minimum}`);
  if (version > history.highest || history.ran.includes(contentDigest(statement))) return undefined;
  return refuse("downgrade", `release ${tag} has version ${version}; this robot has run version ${history.highest} and never this release`);
}

function refusalOfContent({ release, known }: AdmissionCase, { tag, image_configs }: ReleaseStatement): SignatureRefusal | undefined {
  // Files are kept under the id, which the server gives: other content under an id that is on the disk would run the old files.
  if (known.some((other) => other.id === release.id && contentOf(other) !== contentOf(release)))
    return refuse("other_content", `release ${tag} came under the id of another release that is on this robot`);
  const config = release.layers?.config.sha256;
  if (config === undefined || image_configs === null || image_configs.includes(config)) return undefined;
  return refuse("other_content", `what was signed is another release than ${tag}: another image in its archive`);
}

const contentOf = ({ tag, kind, artifact_sha256, artifact_size, image, manifest }: DesiredRelease): string =>
  canonicalJson({ tag, kind, artifact_sha256, artifact_size, image, manifest: manifest ?? null });

/** Only what is signed, and what proves itself against it: a field that a server adds reaches no executor. */
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
