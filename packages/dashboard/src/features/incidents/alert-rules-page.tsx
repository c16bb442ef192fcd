import type { AlertRule } from "@roamfleet/protocol/routes";
import { getRouteApi } from "@tanstack/react-router";
import { useMemo } from "react";
import { useLivePages } from "../../api/live-pages.ts";
import { ConfirmAction } from "../../api/action-dialogs.tsx";
import { type Places, useAction, usePlaces } from "../../api/queries.ts";
import { useMay } from "../../api/session.ts";
import {
  Badge,
  type Column,
  EmptyState,
  ListActions,
  ListTable,
  Menu,
  PageHeader,
  shellLine,
  TextLine,
  useFilters,
} from "../../ui/index.ts";
import { conditionText } from "./alert-text.ts";
import { SeverityBadge } from "./incident-parts.tsx";
import { RuleDialog, RuleTestDialog } from "./rule-dialog.tsx";

const route = getRouteApi("/app/alert-rules");

/** The alert rules. With a metric in the URL, the form of a new rule is open. */
export function AlertRulesPage() {
  const { search, clear } = useFilters(route.useSearch());
  const may_change = useMay("operator");
  const places = usePlaces();
  const list = useLivePages("listAlertRules", {});
  const columns = useMemo(() => columnsOf(places), [places]);
  return (
    <>
      <PageHeader
        title="Alert rules"
        label="Alert rules"
        meta="A rule opens an incident when its condition has been true for the set time."
        actions={
          <ListActions
            verb="New rule"
            renderDialog={may_change && ((close) => <RuleDialog onClose={close} />)}
            command={shellLine("rf", "alerts", "list")}
          />
        }
      />
      {may_change && search.metric !== undefined && <RuleDialog initial={search} onClose={() => clear()} />}
      <ListTable
        label="Alert rules"
        list={list}
        columns={columns}
        empty={
          <EmptyState title="No alert rules yet">
            Without rules, no incidents are opened when robots go offline or deployments fail.
          </EmptyState>
        }
      />
    </>
  );
}

const columnsOf = (places: Places): Column<AlertRule>[] => [
  { name: "Rule", width: "minmax(0, 1.2fr)", cell: ({ name }) => <TextLine className="font-medium">{name}</TextLine> },
  { name: "Condition", width: "minmax(0, 1.6fr)", priority: 2, cell: (rule) => <TextLine>{conditionText(rule)}</TextLine> },
  { name: "Severity", width: "6rem", cell: ({ severity }) => <SeverityBadge severity={severity} /> },
  { name: "Scope", width: "minmax(0, 1fr)", priority: 3, cell: (rule) => <TextLine>{scopeText(rule, places)}</TextLine> },
  {
    name: "Status",
    width: "6rem",
    priority: 2,
    cell: ({ disabled_at }) => (disabled_at === null ? <Badge tone="ok">enabled</Badge> : <Badge>disabled</Badge>),
  },
  { name: "", width: "2.5rem", cell: (rule) => <RuleMenu rule={rule} /> },
];

function scopeText({ site_id, fleet_id, labels }: AlertRule, { site_names, fleet_names }: Places): string {
  const place =
    fleet_id !== null
      ? (fleet_names.get(fleet_id) ?? "a fleet")
      : site_id !== null
        ? (site_names.get(site_id) ?? "a site")
        : "whole organization";
  return [place, ...Object.entries(labels).map(([key, value]) => `${key}=${value}`)].filter((part) => part !== "").join(", ");
}

function RuleMenu({ rule: { id, name, disabled_at } }: { rule: AlertRule }) {
  const may_change = useMay("operator");
  const updating = useAction("updateAlertRule", { done: disabled_at === null ? "Rule disabled" : "Rule enabled" });
  const params = { id };
  return (
    <Menu
      label={`Actions for ${name.slice(0, 80)}`}
      entries={[
        may_change && {
          label: disabled_at === null ? "Disable" : "Enable",
          sends: true,
          onSelect: () => updating.mutate({ params, body: { enabled: disabled_at !== null } }),
        },
        may_change && { label: "Test…", renderDialog: (close) => <RuleTestDialog id={id} onClose={close} /> },
        may_change && {
          label: "Delete…",
          danger: true,
          renderDialog: (close) => (
            <ConfirmAction
              route="deleteAlertRule"
              args={{ params }}
              title="Delete alert rule?"
              consequence="Its open incidents are resolved. To keep the rule, disable it instead."
              verb="Delete rule"
              danger
              done="Rule deleted"
              onClose={close}
            />
          ),
        },
      ]}
    />
  );
}
