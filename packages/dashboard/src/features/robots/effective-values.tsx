import type { RobotConfig } from "@roamfleet/protocol/routes";
import { Link } from "@tanstack/react-router";
import { EyeOff } from "lucide-react";
import { Badge, Card, Section, Text } from "../../ui/index.ts";
import { usePlaces } from "./place-names.ts";
import { valueText } from "./value-text.ts";

type Value = RobotConfig["effective"][number];

/** The effective values by file, each with the scope at which it is set. */
export function EffectiveValues({ config: { effective } }: { config: RobotConfig }) {
  const by_namespace = Map.groupBy(effective, ({ namespace }) => namespace);
  return (
    <Section title="Effective values">
      {effective.length === 0 && <p className="text-muted">None. The next config deployment removes the config files from the robot.</p>}
      {[...by_namespace].map(([namespace, values]) => (
        <Card key={namespace} className="mb-3 overflow-hidden !p-0">
          <h3 className="border-b border-line bg-sunken px-4 py-1.5 text-xs font-medium text-muted">
            <Text>{namespace}</Text>
          </h3>
          <ul className="divide-y divide-line">
            {values.map((value) => (
              <Item key={value.key} value={value} />
            ))}
          </ul>
        </Card>
      ))}
    </Section>
  );
}

function Item({ value: { key, value, secret, scope, scope_id, config_id, version } }: { value: Value }) {
  return (
    <li className="grid gap-x-4 gap-y-1 px-4 py-2 sm:grid-cols-[minmax(0,1fr)_minmax(0,2fr)_12rem]">
      <Link to="/configs/$id" params={{ id: config_id }} className="min-w-0 font-medium text-accent hover:underline">
        <Text>{key}</Text>
      </Link>
      {secret ? (
        <span className="inline-flex items-center gap-1.5 text-muted">
          <EyeOff size={14} aria-hidden /> secret, sent to robots only
        </span>
      ) : (
        <code className="max-h-32 overflow-y-auto font-mono text-xs [overflow-wrap:anywhere] whitespace-pre-wrap">{valueText(value)}</code>
      )}
      <span className="flex min-w-0 items-start gap-2 text-xs text-muted sm:justify-end">
        <Origin scope={scope} scope_id={scope_id} /> {`v${version}`}
      </span>
    </li>
  );
}

function Origin({ scope, scope_id }: Pick<Value, "scope" | "scope_id">) {
  const { fleetName, siteName } = usePlaces();
  const id = scope_id ?? "";
  if (scope === "fleet")
    return (
      <Link to="/fleets/$id" params={{ id }} className="max-w-40 min-w-0" title="Set for the fleet">
        <Badge>{`fleet ${fleetName(id) ?? ""}`}</Badge>
      </Link>
    );
  if (scope === "site")
    return (
      <Link to="/sites/$id" params={{ id }} className="max-w-40 min-w-0" title="Set for the site">
        <Badge>{`site ${siteName(id) ?? ""}`}</Badge>
      </Link>
    );
  return <Badge tone={scope === "robot" ? "info" : "idle"}>{scope === "robot" ? "this robot" : "org"}</Badge>;
}
