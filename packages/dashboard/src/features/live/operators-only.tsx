import { Lock } from "lucide-react";

/** Shown to viewers instead of features that require the operator role. */
export function OperatorsOnly({ what }: { what: string }) {
  return (
    <div className="mx-auto flex max-w-md flex-col items-center gap-2 px-4 py-12 text-center">
      <Lock size={28} aria-hidden className="text-muted" />
      <h2 className="font-semibold">Operator role required</h2>
      <p className="text-muted">
        Permission to {what} requires the operator role; you are a viewer. An admin of the organization can change roles under Users and
        tokens.
      </p>
    </div>
  );
}
