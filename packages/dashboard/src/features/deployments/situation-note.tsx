import { CircleCheck, CircleDot, CircleX, Clock, TriangleAlert } from "lucide-react";
import { cx, type Tone } from "../../ui/index.ts";
import { Countdown } from "./countdown.tsx";
import type { Situation } from "./situation.ts";

const LOOKS: Record<Tone, { box: string; ink: string; icon: typeof Clock }> = {
  ok: { box: "border-ok bg-ok-soft", ink: "text-ok", icon: CircleCheck },
  warn: { box: "border-warn bg-warn-soft", ink: "text-warn", icon: TriangleAlert },
  bad: { box: "border-bad bg-bad-soft", ink: "text-bad", icon: CircleX },
  info: { box: "border-info bg-info-soft", ink: "text-info", icon: CircleDot },
  idle: { box: "border-line bg-idle-soft", ink: "text-idle", icon: Clock },
};

/** Shows the state of a deployment and a suggested next step. Screen readers announce changes. */
export function SituationNote({ situation: { tone, text, advice, until } }: { situation: Situation }) {
  const { box, ink, icon: Icon } = LOOKS[tone];
  return (
    <div role="status" className={cx("mb-4 flex items-start gap-2.5 rounded-lg border px-4 py-3", box)}>
      <Icon size={18} aria-hidden className={cx("mt-0.5 shrink-0", ink)} />
      <div className="min-w-0 [overflow-wrap:anywhere]">
        <p className="font-medium">{text}</p>
        {advice !== undefined && <p className="text-sm text-ink">{advice}</p>}
      </div>
      {until !== undefined && (
        <p className="ml-auto shrink-0 text-right">
          <span className="block text-xs">continues in</span>
          <Countdown until={until} />
        </p>
      )}
    </div>
  );
}
