import { hash } from "node:crypto";
import type { DesiredRelease } from "@roamfleet/protocol/link";
import { type ReleaseStatement, type SignatureCheck, signRelease, type SignedText } from "@roamfleet/protocol/signatures";
import { makeSigner, type Signer, statementOf, TEST_ORG } from "../../packages/agent/src/testing/signing.ts";

export const ROBOT = "rob_1";
export const LABELS = { model: "amr" };
export const DAY_MS = 86_400_000;

/** What the maker of a release signed, and whether the server's offer still matches it. */
export interface Offer {
  release: DesiredRelease;
  app: string;
  /** The signed statement and its signer. Undefined: the maker has not signed the offer in this form. */
  meant: { signer: Signer; statement: ReleaseStatement } | undefined;
  /** The change by a hostile server or network. */
  attack: string;
  /** The checks that may refuse the offer because of `attack`. */
  refused_by: readonly SignatureCheck[];
}

/** Two keys that an org may trust, and one that it never trusts. */
export const SIGNERS = { first: makeSigner("first"), second: makeSigner("second"), stranger: makeSigner("stranger") };

export type Random = () => number;
const pick = <T>(random: Random, from: readonly T[]): T => from[Math.floor(random() * from.length)]!;
const until = (random: Random, end: number): number => Math.floor(random() * end);

/** A release with a random valid version, time and audience. */
export function makeHonest(random: Random, now_ms: number, number: number): Offer {
  const version = 1 + until(random, 12);
  const content = `${version}-${until(random, 2)}`;
  const kind = pick(random, ["app_bundle", "file", "container_image"]);
  const image = kind === "container_image" && random() < 0.5 ? `registry/nav@sha256:${hash("sha256", `image ${content}`)}` : null;
  const release: DesiredRelease = {
    id: `rel_${content}_${kind}_${image === null ? "" : "i"}`,
    tag: `nav-${content}`,
    kind,
    artifact_sha256: hash("sha256", content),
    artifact_size: 100 + version,
    image,
    manifest: random() < 0.5 ? null : { health: { command: ["check", content] } },
  };
  if (release.manifest !== null) release.id += "_m";
  const issued_ms = now_ms - until(random, 20) * DAY_MS;
  const chance = random();
  const statement = statementOf(release, version, {
    minimum_version: random() < 0.1 ? until(random, version + 1) : 0,
    issued_at: new Date(issued_ms).toISOString(),
    expires_at: new Date(issued_ms + (1 + until(random, 30)) * DAY_MS).toISOString(),
    robots: chance < 0.1 ? ["rob_2", `rob_${number + 3}`] : chance < 0.2 ? [ROBOT, "rob_2"] : null,
    labels: chance > 0.9 ? { model: "arm" } : chance > 0.8 ? { ...LABELS } : null,
  });
  const signer = pick(random, [SIGNERS.first, SIGNERS.first, SIGNERS.second, SIGNERS.stranger]);
  return {
    release: { ...release, signature: signRelease(statement, signer.private_key) },
    app: "main",
    meant: { signer, statement },
    attack: "none",
    refused_by: [],
  };
}

type Attack = (
  random: Random,
  offer: Offer,
  others: { offer: Offer; current: DesiredRelease | null },
) => Partial<DesiredRelease> & { app?: string };

const signatureOf = ({ release }: Offer): SignedText => release.signature as SignedText;
const resigned = (offer: Offer, change: Partial<ReleaseStatement>, by: Signer): SignedText =>
  signRelease({ ...offer.meant!.statement, ...change }, by.private_key);
/** Puts the text of another statement under the existing signature. */
const forged = (offer: Offer, change: Partial<ReleaseStatement>): SignedText => ({
  ...signatureOf(offer),
  text: resigned(offer, change, SIGNERS.stranger).text,
});

const CONTENT: readonly SignatureCheck[] = ["other_content"];
const FORGED: readonly SignatureCheck[] = ["bad_signature"];

/** Attacks by an adversary with the server and the network, but without a trusted key. */
export const ATTACKS: Record<string, { refused_by: readonly SignatureCheck[]; apply: Attack }> = {
  "signature taken off": { refused_by: ["unsigned"], apply: () => ({ signature: null }) },
  "signature of another release": {
    refused_by: ["other_content"],
    apply: (_, offer, { offer: other }) => {
      // Two releases with different content have different IDs. If the content is the same, any valid signature would be accepted, so the
      // tag is changed.
      const same = offer.release.id === other.release.id;
      return { signature: signatureOf(other), ...(same ? { tag: `${offer.release.tag}-other` } : {}) };
    },
  },
  "bit of the signature flipped": {
    refused_by: FORGED,
    apply: (random, offer) => {
      const bytes = Buffer.from(signatureOf(offer).value, "base64");
      bytes[until(random, bytes.length)]! ^= 1 << until(random, 8);
      return { signature: { ...signatureOf(offer), value: bytes.toString("base64") } };
    },
  },
  "another tag": { refused_by: CONTENT, apply: (_, { release }) => ({ tag: `${release.tag}.1` }) },
  "another kind": { refused_by: CONTENT, apply: (_, { release }) => ({ kind: release.kind === "file" ? "app_bundle" : "file" }) },
  "another artifact": { refused_by: CONTENT, apply: (random) => ({ artifact_sha256: hash("sha256", String(random())) }) },
  "another size": { refused_by: CONTENT, apply: (_, { release }) => ({ artifact_size: release.artifact_size + 1 }) },
  "another image": { refused_by: CONTENT, apply: (random) => ({ image: `registry/evil@sha256:${hash("sha256", String(random()))}` }) },
  "another manifest": { refused_by: CONTENT, apply: () => ({ manifest: { start: ["rm", "-rf", "/"] } }) },
  "another image in the archive": {
    refused_by: [],
    apply: (random) => ({ layers: { config: { sha256: hash("sha256", String(random())), size: 1 }, layers: [] } }),
  },
  "another app": { refused_by: ["other_app"], apply: () => ({ app: "arm" }) },
  "version raised": {
    refused_by: FORGED,
    apply: (_, offer) => ({ signature: forged(offer, { version: offer.meant!.statement.version + 100 }) }),
  },
  "expiry put off": { refused_by: FORGED, apply: (_, offer) => ({ signature: forged(offer, { expires_at: "2999-01-01T00:00:00Z" }) }) },
  "another robot's made this one's": {
    refused_by: FORGED,
    apply: (_, offer) => ({ signature: forged(offer, { robots: [ROBOT], labels: null, issued_at: "2000-01-01T00:00:00Z" }) }),
  },
  "signed by a stranger under a trusted key's name": {
    refused_by: FORGED,
    apply: (_, offer) => ({
      signature: { ...resigned(offer, {}, SIGNERS.stranger), key_id: SIGNERS.first.id, text: signatureOf(offer).text },
    }),
  },
  "another org's": {
    refused_by: ["bad_signature", "other_org"],
    apply: (random, offer) => ({
      signature: random() < 0.5 ? forged(offer, { org_id: "org_2" }) : resigned(offer, { org_id: "org_2" }, offer.meant!.signer),
    }),
  },
  "id of what runs": {
    refused_by: ["other_content"],
    apply: (_, __, { current }) => (current === null ? { signature: null } : { id: current.id }),
  },
};

/** Applies one attack to an honest release. */
export function attacked(random: Random, offer: Offer, other: Offer, current: DesiredRelease | null): Offer {
  const attack = pick(random, Object.keys(ATTACKS));
  const { refused_by, apply } = ATTACKS[attack]!;
  const { app = offer.app, ...change } = apply(random, offer, { offer: other, current });
  const release = { ...offer.release, ...change };
  const nothing_changed = attack === "id of what runs" && current !== null && current.id === offer.release.id;
  if (nothing_changed) return offer;
  // Without an image config in the release, its layers are not used: the whole archive is fetched.
  if (attack === "another image in the archive") return { ...offer, release, attack };
  return { release, app, meant: undefined, attack, refused_by };
}

export { TEST_ORG };
