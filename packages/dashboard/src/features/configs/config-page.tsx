import type { ConfigEntry, ConfigVersion } from "@roamfleet/protocol/routes";
import { useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { useParams } from "@tanstack/react-router";
import { LockKeyhole } from "lucide-react";
import { useState } from "react";
import { ConfirmAction } from "../../api/action-dialogs.tsx";
import { pagesQuery, query, rowsOf } from "../../api/queries.ts";
import { useMay } from "../../api/session.ts";
import {
  Badge,
  Button,
  Card,
  copyAsRf,
  CopyText,
  Diff,
  Json,
  jsonText,
  LinkButton,
  LoadedPage,
  Menu,
  PageHeader,
  QueryState,
  Section,
  Text,
  Time,
} from "../../ui/index.ts";
import { historyLine, rollbackLine } from "./config-values.ts";
import { useScopeName } from "./configs-frame.tsx";
import { ValuePending } from "./pending-badge.tsx";
import { UnsetDialog, ValueDialog } from "./value-dialog.tsx";

const VERSIONS_A_PAGE = 50;

/** A config value at one scope, with its history. */
export function ConfigPage() {
  const { id } = useParams({ from: "/app/configs/$id" });
  const config = useQuery(query("getConfig", { params: { id } }));
  return (
    <LoadedPage title="Config value" query={config}>
      {(data) => <Shown entry={data} />}
    </LoadedPage>
  );
}

function Shown({ entry }: { entry: ConfigEntry }) {
  const { id, namespace, key, secret, scope, scope_id, version, removed_at } = entry;
  const name = useScopeName(scope, scope_id ?? undefined);
  const may_set = useMay(secret ? "admin" : "operator");
  const is_admin = useMay("admin");
  const [is_editing, setEditing] = useState(false);
  const value = { namespace, key, value: entry.value, secret, scope, scope_id, config_id: id, version };
  return (
    <>
      <PageHeader
        title={
          <bdi>
            <span className="text-muted">{namespace}/</span>
            {key}
          </bdi>
        }
        label={`${namespace}/${key}`}
        meta={
          <>
            {removed_at !== null && <Badge tone="warn">unset</Badge>}
            <ValuePending entry={entry} />
            <span>
              set for {scope === "org" ? "the organization" : `${scope} `}
              {name !== undefined && <bdi className="text-ink">{name}</bdi>}
            </span>
            <span>version {version}</span>
            <CopyText label="ID" text={id} />
          </>
        }
        actions={
          <>
            <LinkButton to="/configs" search={scope === "org" ? {} : { scope, ...(scope_id === null ? {} : { scope_id }) }}>
              View all values
            </LinkButton>
            {may_set && (
              <Button look="primary" busy={false} onClick={() => setEditing(true)}>
                {removed_at === null ? "Change…" : "Set again…"}
              </Button>
            )}
            <Menu
              label="Actions for this value"
              entries={[
                copyAsRf(historyLine(entry)),
                is_admin &&
                  removed_at === null && {
                    label: "Unset…",
                    danger: true,
                    renderDialog: (close) => <UnsetDialog of={value} onClose={close} />,
                  },
              ]}
            />
          </>
        }
      />
      <Value entry={entry} />
      <History entry={entry} may_set={may_set} />
      {is_editing && <ValueDialog place={{ scope, scope_id: scope_id ?? undefined }} of={value} onClose={() => setEditing(false)} />}
    </>
  );
}

function Value({ entry: { secret, removed_at, value } }: { entry: ConfigEntry }) {
  return (
    <Section title="Value">
      {secret ? (
        <Card>
          <p className="flex items-center gap-2">
            <LockKeyhole size={14} aria-hidden /> Secret: encrypted, and sent only to the robots that use it.
          </p>
        </Card>
      ) : removed_at !== null ? (
        <p className="text-muted">Not set</p>
      ) : (
        <Json value={value} />
      )}
    </Section>
  );
}

function History({ entry, may_set }: { entry: ConfigEntry; may_set: boolean }) {
  const history = useInfiniteQuery(pagesQuery("listConfigHistory", { params: { id: entry.id }, query: { limit: VERSIONS_A_PAGE } }));
  const [to, setTo] = useState<ConfigVersion>();
  const versions = rowsOf(history.data);
  return (
    <Section title="History">
      <QueryState query={history}>
        {() => (
          <ol className="space-y-2">
            {versions.map((version, at) => (
              <li key={version.version}>
                <VersionCard
                  version={version}
                  before={versions[at + 1]}
                  is_newest={at === 0}
                  {...(may_set && at > 0 && version.change !== "removed" ? { onRollBack: () => setTo(version) } : {})}
                />
              </li>
            ))}
          </ol>
        )}
      </QueryState>
      {history.hasNextPage && (
        <Button className="mt-2" busy={history.isFetchingNextPage} onClick={() => void history.fetchNextPage()}>
          Load older versions
        </Button>
      )}
      {to !== undefined && <RollBack entry={entry} to={to} onClose={() => setTo(undefined)} />}
    </Section>
  );
}

const CHANGES = { set: "set", removed: "unset", rolled_back: "rolled back" } as const;
const TONES = { set: "ok", removed: "warn", rolled_back: "info" } as const;
const textOf = (version: ConfigVersion | undefined): string =>
  version === undefined || version.change === "removed" ? "" : jsonText(version.value);

function VersionCard({
  version,
  before,
  is_newest,
  onRollBack,
}: {
  version: ConfigVersion;
  before: ConfigVersion | undefined;
  is_newest: boolean;
  onRollBack?: () => void;
}) {
  const { change, rollback_of, actor, at, secret } = version;
  const is_shown = !secret && before?.secret !== true;
  return (
    <Card className="!py-2.5">
      <div className="flex min-h-8 flex-wrap items-center gap-x-3 gap-y-1">
        <span className="font-medium tabular-nums">Version {version.version}</span>
        <Badge tone={TONES[change]}>{rollback_of === null ? CHANGES[change] : `rolled back to version ${rollback_of}`}</Badge>
        {is_newest && <Badge>current</Badge>}
        <span className="min-w-0 flex-1 text-muted max-sm:basis-full">
          <Time at={at} /> by <Text>{actor.name ?? actor.id ?? actor.type}</Text>
        </span>
        {onRollBack !== undefined && (
          <Button busy={false} onClick={onRollBack}>
            Roll back to this version…
          </Button>
        )}
      </div>
      <details className="mt-1" open={is_newest}>
        <summary className="min-h-6 text-xs text-muted">
          {before === undefined ? "Initial value" : `Changes since version ${before.version}`}
        </summary>
        <div className="mt-1">
          {is_shown ? (
            <Diff label={`Changes in version ${version.version}`} before={textOf(before)} after={textOf(version)} />
          ) : (
            <p className="text-muted">Changes of secrets are not shown.</p>
          )}
        </div>
      </details>
    </Card>
  );
}

const RollBack = ({ entry, to, onClose }: { entry: ConfigEntry; to: ConfigVersion; onClose: () => void }) => (
  <ConfirmAction
    route="rollBackConfig"
    args={{ params: { id: entry.id }, body: { version: to.version } }}
    onClose={onClose}
    quiet
    title={`Roll back to version ${to.version}?`}
    consequence={`Sets the value of version ${to.version} again, as version ${entry.version + 1}. The history is kept. Robots change only with the next config deployment.`}
    verb="Roll back"
    done={({ data }) => `Rolled back to version ${to.version}, saved as version ${data.version}. Deploy configs to update robots.`}
    command={rollbackLine(entry, to.version)}
  >
    {!to.secret && !entry.secret && (
      <Diff label="Changes" before={entry.removed_at === null ? jsonText(entry.value) : ""} after={jsonText(to.value)} />
    )}
  </ConfirmAction>
);
