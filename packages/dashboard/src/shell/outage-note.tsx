import { CloudOff } from "lucide-react";
import { Time, useOutage } from "../ui/index.ts";

/** Above every page while the server does not answer: the data below is old, and no action can be sent. */
export function OutageNote() {
  const outage = useOutage();
  if (outage === undefined) return null;
  return (
    <div role="status" data-outage className="flex shrink-0 items-start gap-2.5 border-b border-bad bg-bad-soft px-4 py-2 md:px-6">
      <CloudOff size={16} aria-hidden className="mt-0.5 shrink-0 text-bad" />
      <p className="min-w-0">
        <strong className="font-semibold">The server does not answer.</strong> This page shows data of{" "}
        <Time at={new Date(outage.since_ms).toISOString()} exact />. Actions are disabled until the server answers; the page reconnects
        automatically.
      </p>
    </div>
  );
}
