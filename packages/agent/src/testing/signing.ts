import { generateKeyPairSync, type KeyObject } from "node:crypto";
import type { DesiredRelease } from "@roamfleet/protocol/link";
import {
  keyIdOf,
  manifestDigest,
  publicKeyOf,
  type ReleaseStatement,
  type SignedText,
  signRelease,
  signTrust,
  type TrustedKey,
} from "@roamfleet/protocol/signatures";
import type { TestRelease } from "./bundles.ts";

/** A signer of releases with a key that no other signer has. */
export interface Signer extends TrustedKey {
  id: string;
  private_key: KeyObject;
}

export function makeSigner(name: string): Signer {
  const { privateKey } = generateKeyPairSync("ed25519");
  const public_key = publicKeyOf(privateKey);
  return { name, public_key, id: keyIdOf(public_key), private_key: privateKey };
}

export const TEST_ORG = "org_1";

/**
 * Returns the statement that a maker signs for a release of the app `main`. It is valid for a day
 * from now.
 */
export function statementOf(release: DesiredRelease, version: number, more: Partial<ReleaseStatement> = {}): ReleaseStatement {
  const { tag, kind, artifact_sha256, artifact_size, image, manifest } = release;
  return {
    org_id: TEST_ORG,
    app: "main",
    tag,
    kind,
    artifact_sha256,
    artifact_size,
    image,
    image_configs: null,
    manifest_sha256: manifestDigest(manifest),
    version,
    minimum_version: 0,
    issued_at: new Date(Date.now() - 60_000).toISOString(),
    expires_at: new Date(Date.now() + 86_400_000).toISOString(),
    robots: null,
    labels: null,
    ...more,
  };
}

/** Returns a release with the signature of its maker. */
export const signed = (one: TestRelease, signer: Signer, version: number, more: Partial<ReleaseStatement> = {}): TestRelease => ({
  bytes: one.bytes,
  release: { ...one.release, signature: signRelease(statementOf(one.release, version, more), signer.private_key) },
});

/** Returns a statement, signed by `by`, that robots trust these keys from now on. */
export const trusting = (serial: number, keys: readonly Signer[], by: Signer, require_signature = true): SignedText =>
  signTrust(
    {
      org_id: TEST_ORG,
      serial,
      require_signature,
      keys: keys.map(({ name, public_key }) => ({ name, public_key })),
      issued_at: new Date().toISOString(),
    },
    by.private_key,
  );
