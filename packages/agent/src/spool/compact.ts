import type { Report, ReportBody, ReportedStatus } from "@roamfleet/protocol/link";

const FINAL: readonly ReportedStatus[] = ["applied", "rolled_back", "failed", "cancelled"];

/** Drops reports that a later one supersedes; how a target ended is always kept. Keeps the order. */
export function compactReports(reports: Report[]): Report[] {
  const newest = new Map<string, Report>();
  for (const report of reports) newest.set(subjectOf(report.body), report);
  return reports.filter((report) => isFinal(report.body) || newest.get(subjectOf(report.body)) === report);
}

const isFinal = (body: ReportBody): boolean => body.kind === "target" && FINAL.includes(body.status);

function subjectOf(body: ReportBody): string {
  switch (body.kind) {
    case "target":
      return `target ${body.target_id} ${body.attempt}`;
    case "app":
      return `app ${body.app}`;
    case "config":
      return `config ${body.namespace}`;
    case "observed":
      return "observed";
  }
}
