import type { Release } from "@roamfleet/protocol/routes";
import { useQuery } from "@tanstack/react-query";
import { useParams } from "@tanstack/react-router";
import { ChevronRight, Download, Rocket, Trash2 } from "lucide-react";
import { useState } from "react";
import { query } from "../../api/queries.ts";
import { useMay } from "../../api/session.ts";
import {
  AnchorButton,
  Badge,
  Bytes,
  Card,
  copyAsRf,
  CopyText,
  Json,
  KeyValue,
  LinkButton,
  Menu,
  PageHeader,
  QueryState,
  Section,
  shellLine,
  StatusBadge,
  Text,
  Time,
} from "../../ui/index.ts";
import { ContinueUpload } from "./continue-upload.tsx";
import { DeleteRelease } from "./delete-release.tsx";
import { PushPanel } from "./push-panel.tsx";
import { ReleaseDeployments } from "./release-deployments.tsx";
import { ReleaseFleets, ReleaseRobots } from "./release-robots.tsx";
import { ReleaseSignature } from "./release-signature.tsx";

/** A release: details, signature, robots and deployments. */
export function ReleasePage() {
  const { id } = useParams({ from: "/app/releases/$id" });
  const release = useQuery(query("getRelease", { params: { id } }));
  if (release.data === undefined)
    return (
      <>
        <PageHeader title="Release" label="Release" />
        <QueryState query={release}>{() => null}</QueryState>
      </>
    );
  return <Shown release={release.data.data} />;
}

function Shown({ release }: { release: Release }) {
  return (
    <>
      <Head release={release} />
      <PushPanel release_id={release.id} />
      <ContinueUpload release={release} />
      <div className="grid gap-x-6 lg:grid-cols-2">
        <div className="min-w-0">
          <Facts release={release} />
          <ReleaseSignature release={release} />
          <Layers images={release.images} />
          {release.manifest !== null && release.manifest !== undefined && (
            <Section title="Manifest">
              <Json value={release.manifest} />
            </Section>
          )}
        </div>
        <div className="min-w-0">
          <ReleaseRobots release={release} />
          <ReleaseFleets release={release} />
          <ReleaseDeployments release={release} />
        </div>
      </div>
    </>
  );
}

function Head({ release }: { release: Release }) {
  const { id, tag, app, artifact_state } = release;
  const may_change = useMay("operator");
  const is_admin = useMay("admin");
  const [is_deleting, setDeleting] = useState(false);
  const artifact = `/api/releases/${encodeURIComponent(id)}/artifact`;
  return (
    <>
      <PageHeader
        title={<bdi>{tag}</bdi>}
        label={tag}
        meta={
          <>
            <StatusBadge status={artifact_state} />
            <span>
              release of <bdi className="font-medium text-ink">{app}</bdi>
            </span>
            <CopyText label="ID">{id}</CopyText>
          </>
        }
        actions={
          <>
            {may_change && artifact_state === "stored" && (
              <AnchorButton href={artifact} download={tag} icon={<Download size={14} aria-hidden />}>
                Download
              </AnchorButton>
            )}
            {may_change && (
              <LinkButton look="primary" to="/deployments/new" search={{ release: id }} icon={<Rocket size={14} aria-hidden />}>
                Deploy
              </LinkButton>
            )}
            <Menu
              label="Actions for this release"
              entries={[
                copyAsRf(shellLine("rf", "releases", "show", tag)),
                may_change && copyAsRf(`${shellLine("rf", "deploy", tag)} --fleet FLEET_ID --watch`, "Copy rf deploy command"),
                is_admin && {
                  label: "Delete…",
                  icon: <Trash2 size={14} aria-hidden />,
                  danger: true,
                  onSelect: () => setDeleting(true),
                },
              ]}
            />
          </>
        }
      />
      {is_deleting && <DeleteRelease release={release} onClose={() => setDeleting(false)} />}
    </>
  );
}

function Facts({ release }: { release: Release }) {
  const { kind, notes, image, artifact_size, artifact_sha256, created_at, created_by } = release;
  return (
    <Section title="Details">
      <Card>
        <KeyValue
          items={[
            ["Kind", <Text key="kind">{kind}</Text>],
            image === null && ["Size", <Bytes key="size" count={artifact_size} />],
            image !== null && [
              "Image",
              <Text key="image" className="font-mono text-xs">
                {image}
              </Text>,
            ],
            [
              "SHA-256",
              <CopyText key="sha" label="SHA-256">
                {artifact_sha256}
              </CopyText>,
            ],
            [
              "Pushed",
              <span key="pushed">
                <Time at={created_at} /> by <Text>{created_by === null ? "unknown user" : (created_by.name ?? created_by.type)}</Text>
              </span>,
            ],
            [
              "Release notes",
              <div key="notes" className="max-h-72 overflow-y-auto whitespace-pre-wrap">
                <Text>{notes}</Text>
              </div>,
            ],
          ]}
        />
      </Card>
    </Section>
  );
}

function Layers({ images }: { images: Release["images"] }) {
  if (images === undefined || images.length === 0) return null;
  return (
    <Section title="Images">
      <div className="space-y-2">
        {images.map(({ platform, config, layers }) => {
          const whole = layers.reduce((sum, { size }) => sum + size, 0);
          return (
            <Card key={`${platform} ${config.sha256}`}>
              <details className="group">
                <summary className="flex min-h-6 flex-wrap items-center gap-2">
                  <ChevronRight size={14} aria-hidden className="shrink-0 text-muted transition-transform group-open:rotate-90" />
                  <Badge>{platform === "" ? "any platform" : platform}</Badge>
                  <span>
                    {layers.length} layers, <Bytes count={whole} />
                  </span>
                  <span className="text-xs text-muted">download size for a robot without any of these layers</span>
                </summary>
                <ol className="mt-2 space-y-1 text-xs">
                  {layers.map(({ sha256, size }, at) => (
                    <li key={at} className="grid grid-cols-[2rem_minmax(0,1fr)_5rem] items-center gap-2">
                      <span className="text-right text-muted tabular-nums">{at + 1}</span>
                      <CopyText label="Layer">{sha256}</CopyText>
                      <span className="text-right">
                        <Bytes count={size} />
                      </span>
                    </li>
                  ))}
                </ol>
              </details>
            </Card>
          );
        })}
      </div>
    </Section>
  );
}
