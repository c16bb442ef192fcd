import { Lock } from "lucide-react";

/** In place of what viewers may not do. */
export function OperatorsOnly({ what }: { what: string }) {
  return (
    <div className="mx-auto flex max-w-md flex-col items-center gap-2 px-4 py-12 text-center">
      <Lock size={28} aria-hidden className="text-muted" />
      <h2 className="font-semibold">For operators</h2>
      <p className="text-muted">
        To {what} takes the role operator; you are a viewer. An admin of the org gives roles under Users and tokens.
      </p>
    </div>
  );
}
