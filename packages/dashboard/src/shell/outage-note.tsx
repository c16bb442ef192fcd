import { CloudOff } from "lucide-react";
import { Time, useOutage } from "../ui/index.ts";

/** A bar above every page during an outage: the data below is old, and actions are disabled. */
export function OutageNote() {
  const outage = useOutage();
  if (outage === undefined) return null;
  return (
    <div role="status" data-outage className="flex shrink-0 items-start gap-2.5 border-b border-bad bg-bad-soft px-4 py-2 md:px-6">
      <CloudOff size={16} aria-hidden className="mt-0.5 shrink-0 text-bad" />
      <p className="min-w-0">
        <strong className="font-semibold">The server is not responding.</strong> This page shows data from{" "}
        <Time at={new Date(outage.since_ms).toISOString()} exact />. Actions are disabled until the server responds. The page reconnects
        automatically.
      </p>
    </div>
  );
}
