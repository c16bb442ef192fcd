import type { Release, SigningKeys } from "@roamfleet/protocol/routes";
import { useQuery } from "@tanstack/react-query";
import { ShieldAlert, ShieldCheck, ShieldQuestion, ShieldX } from "lucide-react";
import { useEffect, useState } from "react";
import { query } from "../../api/queries.ts";
import { useMay } from "../../api/session.ts";
import { Badge, Card, Command, CopyText, hasFailed, KeyValue, Section, shellLine, Text, Time, type Tone, useNow } from "../../ui/index.ts";
import { isSignedBy, readSignature, type Signed, type Standing, standingOf } from "./signature.ts";

/** The signature of a release and whether robots of the organization accept it. */
export function ReleaseSignature({ release }: { release: Release }) {
  const is_admin = useMay("admin");
  const read = useQuery({ ...query("getSigningKeys"), enabled: is_admin });
  const keys = read.data?.data;
  const signed = readSignature(release.signature);
  return (
    <Section title="Signature">
      <Card>
        {signed !== undefined ? (
          <SignedBy release={release} signed={signed} keys={keys} has_failed={hasFailed(read)} />
        ) : release.signature !== null && release.signature !== undefined ? (
          <p className="text-bad">This page cannot read the signature. Robots refuse signatures that they cannot read.</p>
        ) : (
          <Unsigned release={release} keys={keys} has_failed={hasFailed(read)} />
        )}
      </Card>
    </Section>
  );
}

interface KnownKeys {
  /** Undefined: not known, because the user is no admin or the keys are not loaded. */
  keys: SigningKeys | undefined;
  has_failed: boolean;
}

function Unsigned({ release, keys, has_failed }: { release: Release } & KnownKeys) {
  const file = release.image === null ? ["FILE"] : ["--image", release.image];
  return (
    <>
      <p className="mb-2 flex flex-wrap items-center gap-2">
        <Badge tone={keys?.require_signature === true ? "bad" : "idle"} icon={ShieldQuestion}>
          not signed
        </Badge>
        <span>
          {has_failed
            ? "Signature policy not loaded. If the organization requires signatures, this release cannot be deployed."
            : keys === undefined
              ? "If the organization requires signatures, this release cannot be deployed."
              : keys.require_signature
                ? "The organization requires signatures: this release cannot be deployed, and robots would refuse it."
                : "The organization does not require signatures."}
        </span>
      </p>
      <p className="mb-2 text-muted">To sign the release, push the same content again from the machine that has the private key:</p>
      <Command>{`${shellLine("rf", "releases", "push", ...file, "--tag", release.tag, "--kind", release.kind)} --sign release-key.pem`}</Command>
    </>
  );
}

function SignedBy({ release, signed, keys, has_failed }: { release: Release; signed: Signed } & KnownKeys) {
  const { said, key_id } = signed;
  const key = keys?.keys.find(({ id }) => id === key_id);
  return (
    <KeyValue
      items={{
        Status: <StandingText release={release} signed={signed} keys={keys} has_failed={has_failed} />,
        Key: (
          <span className="flex flex-wrap items-center gap-x-2">
            {key !== undefined && <Text>{key.name}</Text>}
            <CopyText label="Key" text={key_id} />
          </span>
        ),
        Version: `${said.version}`,
        Signed: <Time at={said.issued_at} exact />,
        "Installable until": <Time at={said.expires_at} exact />,
        "Minimum version": said.minimum_version > 0 && `${said.minimum_version} (robots that ran this release refuse lower versions)`,
        "Only for robots": said.robots !== null && <Text>{said.robots.join(", ")}</Text>,
        "Only for robots with": said.labels !== null && (
          <Text>
            {Object.entries(said.labels)
              .map(([name, value]) => `${name}=${value}`)
              .join(", ")}
          </Text>
        ),
      }}
    />
  );
}

const STANDINGS: Record<Standing, { tone: Tone; text: string; icon: typeof ShieldCheck }> = {
  trusted: { tone: "ok", text: "signed with a key that the organization's robots trust", icon: ShieldCheck },
  revoked: { tone: "bad", text: "key revoked: robots refuse this release until it is signed with another key", icon: ShieldX },
  unknown_key: { tone: "bad", text: "signed with a key unknown to the organization: robots refuse this release", icon: ShieldX },
  other_content: { tone: "bad", text: "the signature belongs to another release: robots refuse this release", icon: ShieldX },
  expired: {
    tone: "warn",
    text: "robots that run this release keep it; no robot installs it until it is signed again",
    icon: ShieldAlert,
  },
};

function StandingText({ release, signed, keys, has_failed }: { release: Release; signed: Signed } & KnownKeys) {
  const now = useNow();
  const public_key = keys?.keys.find(({ id }) => id === signed.key_id)?.public_key;
  const is_true = useIsSignedBy(signed, public_key);
  if (keys === undefined)
    return (
      <span className="flex flex-wrap items-center gap-2">
        <Badge icon={has_failed ? ShieldQuestion : ShieldCheck}>signed</Badge>
        <span className="text-muted">
          {has_failed
            ? "Not loaded: the keys of the organization. It is not known whether robots accept this signature."
            : "Signed with a key of the organization. Admins can see which key; robots verify the signature themselves."}
        </span>
      </span>
    );
  const { tone, text, icon: Icon } = STANDINGS[standingOf(release, signed, keys.keys, now)];
  if (is_true === false)
    return (
      <Badge tone="bad" icon={ShieldX}>
        invalid signature: robots refuse this release
      </Badge>
    );
  return (
    <span className="flex flex-wrap items-center gap-2">
      <Badge tone={tone} icon={Icon}>
        {tone === "ok" ? "valid" : tone === "warn" ? "expired" : "refused"}
      </Badge>
      <span>{text}</span>
      {is_true === true && <span className="text-xs text-muted">verified in this browser</span>}
    </span>
  );
}

function useIsSignedBy(signed: Signed, public_key: string | undefined): boolean | undefined {
  const { key_id, text, value } = signed;
  const [is_true, setTrue] = useState<boolean>();
  useEffect(() => {
    if (public_key === undefined) return undefined;
    let is_wanted = true;
    void isSignedBy({ key_id, text, value } as Signed, public_key).then((found) => {
      if (is_wanted) setTrue(found);
    });
    return () => {
      is_wanted = false;
    };
  }, [key_id, text, value, public_key]);
  return is_true;
}
