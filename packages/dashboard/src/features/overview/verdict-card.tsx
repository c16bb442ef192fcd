import { Link, type LinkProps } from "@tanstack/react-router";
import { CircleCheck, CircleDashed, CircleDot, CircleX, TriangleAlert } from "lucide-react";
import { cx, Time, type Tone, useOutage } from "../../ui/index.ts";
import type { Finding, Verdict } from "./verdict.ts";

const LOOKS: Record<Tone, { box: string; ink: string; icon: typeof CircleX }> = {
  ok: { box: "border-ok bg-ok-soft", ink: "text-ok", icon: CircleCheck },
  warn: { box: "border-warn bg-warn-soft", ink: "text-warn", icon: TriangleAlert },
  bad: { box: "border-bad bg-bad-soft", ink: "text-bad", icon: CircleX },
  info: { box: "border-info bg-info-soft", ink: "text-info", icon: CircleDot },
  idle: { box: "border-line bg-idle-soft", ink: "text-idle", icon: CircleDashed },
};

/** Shows whether anything is wrong, and what. Screen readers announce changes. */
export function VerdictCard({ verdict: { tone, title, findings, gap } }: { verdict: Verdict }) {
  const { box, ink, icon: Icon } = LOOKS[tone];
  const outage = useOutage();
  return (
    <section aria-label="Status" data-verdict={tone} className={cx("mb-4 rounded-lg border px-4 py-3", box)}>
      <div role="status">
        <p className="flex items-center gap-2.5 text-lg font-semibold">
          <Icon size={20} aria-hidden className={cx("shrink-0", ink)} />
          {title}
        </p>
        {outage !== undefined && (
          <p className="mt-1">
            The values below are from <Time at={new Date(outage.since_ms).toISOString()} exact />.
          </p>
        )}
        {gap !== undefined && <p className="mt-1">{gap}</p>}
        {findings.length > 0 && (
          <ul className="mt-2 grid gap-x-6 gap-y-1 lg:grid-cols-2">
            {findings.map((finding) => (
              <FindingLine key={finding.text} finding={finding} />
            ))}
          </ul>
        )}
      </div>
    </section>
  );
}

function FindingLine({ finding: { tone, text, at, link } }: { finding: Finding }) {
  const { ink, icon: Icon } = LOOKS[tone];
  return (
    <li className="flex min-w-0 flex-wrap items-center gap-x-2">
      <Icon size={14} aria-label={tone === "bad" ? "Problem" : "Needs attention"} className={cx("shrink-0", ink)} />
      <Link {...(link as LinkProps)} className="inline-flex min-h-6 min-w-0 items-center underline [overflow-wrap:anywhere]">
        {text}
      </Link>
      {at !== undefined && at !== null && (
        <span className="text-sm text-ink">
          <Time at={at} />
        </span>
      )}
    </li>
  );
}
