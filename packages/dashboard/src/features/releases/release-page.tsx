import type { Deployment, Release, Robot } from "@roamfleet/protocol/routes";
import { useQuery } from "@tanstack/react-query";
import { Link, useNavigate, useParams } from "@tanstack/react-router";
import { ChevronRight, Download, Rocket, Trash2 } from "lucide-react";
import { ConfirmAction } from "../../api/action-dialogs.tsx";
import { useLivePages } from "../../api/live-pages.ts";
import { query, usePlaces } from "../../api/queries.ts";
import { useMay } from "../../api/session.ts";
import {
  AnchorButton,
  Badge,
  Bytes,
  Card,
  CardList,
  type Column,
  copyAsRf,
  CopyText,
  counted,
  DeploymentStatusBadge,
  FailedSection,
  hasFailed,
  HealthBadge,
  Json,
  KeyValue,
  LinkButton,
  ListTable,
  LoadedPage,
  Menu,
  NameLink,
  PageHeader,
  QueryState,
  Section,
  shellLine,
  RobotStatus,
  StatusBadge,
  Text,
  TextLine,
  Time,
} from "../../ui/index.ts";
import { TargetName } from "../deployments/deployment-parts.tsx";
import { ReleaseSignature } from "./release-signature.tsx";
import { ContinueUpload, dismissPush, PushPanel } from "./uploads.tsx";

/** A release: details, signature, robots and deployments. */
export function ReleasePage() {
  const { id } = useParams({ from: "/app/releases/$id" });
  const release = useQuery(query("getRelease", { params: { id } }));
  return (
    <LoadedPage title="Release" query={release}>
      {(data) => <Shown release={data} />}
    </LoadedPage>
  );
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
              app <bdi className="font-medium text-ink">{app}</bdi>
            </span>
            <CopyText label="ID" text={id} />
          </>
        }
        actions={
          <>
            {may_change && artifact_state === "stored" && (
              <AnchorButton href={artifact} download={tag} icon={Download}>
                Download
              </AnchorButton>
            )}
            {may_change && (
              <LinkButton look="primary" to="/deployments/new" search={{ release: id }} icon={Rocket}>
                Deploy
              </LinkButton>
            )}
            <Menu
              label="Actions for this release"
              entries={[
                copyAsRf(shellLine("rf", "releases", "show", tag)),
                may_change && copyAsRf(`${shellLine("rf", "deploy", tag)} --fleet FLEET --watch`, "Copy rf deploy command"),
                is_admin && {
                  label: "Delete…",
                  icon: Trash2,
                  danger: true,
                  renderDialog: (close) => <DeleteRelease release={release} onClose={close} />,
                },
              ]}
            />
          </>
        }
      />
    </>
  );
}

function Facts({ release }: { release: Release }) {
  const { kind, notes, image, artifact_size, artifact_sha256, created_at, created_by } = release;
  return (
    <Section title="Details">
      <Card>
        <KeyValue
          items={{
            Kind: <Text>{kind.replaceAll("_", " ")}</Text>,
            Size: image === null && <Bytes count={artifact_size} />,
            Image: image !== null && <Text className="font-mono text-xs">{image}</Text>,
            "SHA-256": <CopyText label="SHA-256" text={artifact_sha256} />,
            Pushed: (
              <span>
                <Time at={created_at} /> by <Text>{created_by === null ? "unknown user" : (created_by.name ?? created_by.type)}</Text>
              </span>
            ),
            "Release notes": (
              <div className="max-h-72 overflow-y-auto whitespace-pre-wrap">
                <Text>{notes}</Text>
              </div>
            ),
          }}
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
                    {counted(layers.length, "layer")}, <Bytes count={whole} />
                  </span>
                  <span className="text-xs text-muted">download size for a robot without any of these layers</span>
                </summary>
                <ol className="mt-2 space-y-1 text-xs">
                  {layers.map(({ sha256, size }, at) => (
                    <li key={at} className="grid grid-cols-[2rem_minmax(0,1fr)_5rem] items-center gap-2">
                      <span className="text-right text-muted tabular-nums">{at + 1}</span>
                      <CopyText label="Layer" text={sha256} />
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

/** Deletes a release after confirmation. */
function DeleteRelease({ release: { id, tag }, onClose }: { release: Release; onClose: () => void }) {
  const navigate = useNavigate();
  return (
    <ConfirmAction
      route="deleteRelease"
      args={{ params: { id } }}
      onClose={onClose}
      quiet
      title="Delete release?"
      consequence="The release can no longer be deployed or rolled back to, and its tag becomes free. Its storage is freed one day later. You cannot delete a release that a robot runs, is assigned or keeps for rollback, or that is the current release of a fleet."
      verb="Delete release"
      danger
      type_to_confirm={tag}
      done="Release deleted"
      onSuccess={() => {
        dismissPush(id);
        void navigate({ to: "/releases" });
      }}
      command={`rf api DELETE /api/releases/${id}`}
    />
  );
}

function Started({ deployment: { status, counts, created_at, scheduled_at } }: { deployment: Deployment }) {
  const is_scheduled = status === "scheduled";
  return (
    <>
      {is_scheduled ? "starts " : `${counts.applied} of ${counts.total} applied · `}
      <Time at={is_scheduled ? scheduled_at : created_at} />
    </>
  );
}

const LATEST = 10;

/** The latest deployments of a release. */
function ReleaseDeployments({ release: { id } }: { release: Release }) {
  const deployments = useQuery(query("listDeployments", { query: { release_id: id, limit: LATEST, cause: "request" } }));
  return (
    <Section title="Deployments" all={deployments.data?.items.length !== 0 && { to: "/deployments", search: { release_id: id } }}>
      <QueryState query={deployments} rows={3}>
        {({ items }) => (
          <CardList items={items} empty="No deployments yet">
            {(deployment) => (
              <li key={deployment.id}>
                <Link to="/deployments/$id" params={{ id: deployment.id }} className="flex items-center gap-3 px-4 py-2 hover:bg-hover">
                  <TargetName target={deployment} className="flex-1" />
                  <DeploymentStatusBadge deployment={deployment} />
                  <span className="shrink-0 text-xs text-muted tabular-nums">
                    <Started deployment={deployment} />
                  </span>
                </Link>
              </li>
            )}
          </CardList>
        )}
      </QueryState>
    </Section>
  );
}

const COLUMNS: readonly Column<Robot>[] = [
  {
    name: "Robot",
    width: "minmax(6rem, 2fr)",
    cell: (robot) => <NameLink to="/robots/$id" params={{ id: robot.id }} name={robot.name} className="font-medium" />,
  },
  { name: "Fleet", width: "minmax(5rem, 1fr)", priority: 2, cell: ({ fleet_id }) => <FleetName id={fleet_id} /> },
  { name: "Status", width: "7.5rem", cell: (robot) => <RobotStatus robot={robot} /> },
  { name: "Health", width: "6rem", priority: 2, cell: (robot) => <HealthBadge robot={robot} /> },
];

function FleetName({ id }: { id: string }) {
  const { fleet_names } = usePlaces();
  return <TextLine>{fleet_names.get(id) ?? "a fleet"}</TextLine>;
}

/** The robots that run a release. */
function ReleaseRobots({ release: { id, app } }: { release: Release }) {
  const navigate = useNavigate();
  const list = useLivePages("listRobots", { query: { release_id: id } });
  const { query, rows, has_more } = list;
  const count = has_more ? `${rows.length}+` : String(rows.length);
  return (
    <Section
      title={query.data === undefined || rows.length === 0 ? "Installed on" : `Installed on ${count} robot${count === "1" ? "" : "s"}`}
      all={rows.length > 0 && { to: "/robots", search: { release_id: id } }}
    >
      <ListTable
        label={`Robots that run this release as ${app}`}
        list={list}
        placeholder_rows={3}
        columns={COLUMNS}
        onOpen={(robot) => void navigate({ to: "/robots/$id", params: { id: robot.id } })}
        empty={<p className="text-muted">Not installed on any robot</p>}
      />
    </Section>
  );
}

/** The fleets whose current release is this release. */
function ReleaseFleets({ release: { id } }: { release: Release }) {
  const { site_names } = usePlaces();
  const read = useQuery(query("listFleets"));
  if (hasFailed(read)) return <FailedSection title="Fleets with this release" query={read} />;
  const having = (read.data?.items ?? []).filter(({ desired }) => Object.values(desired).some((release) => release.id === id));
  if (having.length === 0) return null;
  return (
    <Section title="Fleets with this release">
      <CardList items={having}>
        {({ id: fleet_id, name, site_id, online_count, robot_count }) => (
          <li key={fleet_id} className="flex items-center justify-between gap-3 px-4 py-2">
            <NameLink to="/fleets/$id" params={{ id: fleet_id }} name={name} className="font-medium" />
            <span className="shrink-0 text-xs text-muted tabular-nums">
              <bdi>{site_names.get(site_id) ?? "a site"}</bdi> · {online_count} of {robot_count} robots online
            </span>
          </li>
        )}
      </CardList>
    </Section>
  );
}
