import { isOutdatedAgent } from "@roamfleet/protocol/agent-version";
import { CircleArrowUp } from "lucide-react";
import { Badge, TextLine } from "../../ui/index.ts";

/** The version of a robot's agent, marked if the server hosts a newer one. */
export function AgentVersion({ version, hosted }: { version: string | null; hosted: string | undefined }) {
  if (version === null) return <span className="text-muted">—</span>;
  const is_outdated = isOutdatedAgent(version, hosted);
  return (
    <span className="flex min-w-0 items-center gap-1.5" title={is_outdated ? `The server hosts version ${hosted}` : undefined}>
      <TextLine>{version}</TextLine>
      {is_outdated && (
        <Badge tone="warn" icon={CircleArrowUp}>
          outdated
        </Badge>
      )}
    </span>
  );
}
