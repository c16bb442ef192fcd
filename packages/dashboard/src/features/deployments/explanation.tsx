import type { Explanation } from "@roamfleet/protocol/routes";
import { useQuery } from "@tanstack/react-query";
import { Check, CircleHelp, type LucideIcon, X } from "lucide-react";
import { query } from "../../api/queries.ts";
import { Command, counted, cx, QueryState, shellLine, Text, Time } from "../../ui/index.ts";

type Condition = Explanation["conditions"][number];

/** useQuery options of the explanation why a robot has not installed a release; without a deployment, of the newest one. */
export const explanationQuery = (robot_id: string, deployment_id?: string) =>
  query("explainRobot", { params: { id: robot_id }, query: deployment_id === undefined ? {} : { deployment_id } });

/** Loads and shows the explanation why a robot has not installed the release of a deployment. */
export function WhyNot({ robot_id, deployment_id }: { robot_id: string; deployment_id: string }) {
  return (
    <QueryState query={useQuery(explanationQuery(robot_id, deployment_id))} rows={2}>
      {({ data }) => <Conditions explanation={data} />}
    </QueryState>
  );
}

/** The unmet conditions of an explanation with what helps, and the others in a list that can be opened. */
export function Conditions({ explanation: { conditions, summary, robot_id, deployment_id } }: { explanation: Explanation }) {
  const unmet = conditions.filter(({ met }) => met === false);
  const others = conditions.filter(({ met }) => met !== false);
  return (
    <>
      {unmet.length === 0 ? (
        <p>
          <Text>{summary}</Text>
        </p>
      ) : (
        <ConditionList conditions={unmet} />
      )}
      {others.length > 0 && (
        <details className="mt-3">
          <summary className="cursor-pointer text-muted">{counted(others.length, "other condition")}</summary>
          <ConditionList conditions={others} />
        </details>
      )}
      <div className="mt-3">
        <Command>{shellLine("rf", "explain", robot_id, ...(deployment_id === null ? [] : ["--deployment", deployment_id]))}</Command>
      </div>
    </>
  );
}

function ConditionList({ conditions }: { conditions: readonly Condition[] }) {
  return (
    <ul className="space-y-2 pt-1">
      {conditions.map((condition) => (
        <ConditionItem key={condition.name} condition={condition} />
      ))}
    </ul>
  );
}

const MARKS: Record<"met" | "unmet" | "unknown", { icon: LucideIcon; label: string; className: string }> = {
  met: { icon: Check, label: "met", className: "text-ok" },
  unmet: { icon: X, label: "not met", className: "text-bad" },
  unknown: { icon: CircleHelp, label: "not known yet", className: "text-muted" },
};

function ConditionItem({ condition: { met, message, until, change } }: { condition: Condition }) {
  const { icon: Icon, label, className } = MARKS[met === null ? "unknown" : met ? "met" : "unmet"];
  return (
    <li className="flex min-w-0 gap-2">
      <Icon size={16} aria-label={label} className={cx("mt-0.5 shrink-0", className)} />
      <div className="min-w-0 flex-1 space-y-1">
        <p>
          <Text>{message}</Text>
          {until !== null && (
            <span className="text-muted">
              {" "}
              (<Time at={until} />)
            </span>
          )}
        </p>
        {change !== null && (
          <p className="text-muted">
            <Text>{change.message}</Text>
          </p>
        )}
        {change?.command != null && <Command>{change.command}</Command>}
      </div>
    </li>
  );
}
