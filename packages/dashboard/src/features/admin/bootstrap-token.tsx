import type { ApprovedOrg } from "@roamfleet/protocol/routes";
import { useMutation } from "@tanstack/react-query";
import { useRouter } from "@tanstack/react-router";
import { signIn } from "../../api/session.ts";
import { Button, Command, Dialog, SecretOnce, shellLine, tellError } from "../../ui/index.ts";

/** The first token of an org, and what comes next. */
export function BootstrapToken({ org: { name, token }, onClose }: { org: ApprovedOrg; onClose: () => void }) {
  const router = useRouter();
  const entering = useMutation({
    mutationFn: (secret: string) => signIn(secret),
    onSuccess: async () => {
      await router.invalidate();
      await router.navigate({ to: "/" });
    },
    onError: tellError,
  });
  return (
    <Dialog
      open
      onClose={onClose}
      title={`${name.slice(0, 80)} is active`}
      actions={
        <>
          <Button onClick={onClose}>I have it</Button>
          {token !== null && (
            <Button look="primary" busy={entering.isPending} onClick={() => entering.mutate(token)}>
              Sign in with it
            </Button>
          )}
        </>
      }
    >
      {token === null ? (
        <p>
          The org was approved, but the first answer did not arrive, and its token is not told twice. Suspend the org and make another one.
        </p>
      ) : (
        <div className="text-left">
          <SecretOnce secret={token}>The bootstrap token is shown this once. It may do everything in this org.</SecretOnce>
          <ol className="mt-4 list-decimal space-y-2 pl-5">
            <li>
              Hand it over by a safe way, or sign in with it: on this server's page, or in a terminal
              <div className="mt-1">
                <Command>{shellLine("rf", "login", "--base-url", window.location.origin, "--token", token)}</Command>
              </div>
            </li>
            <li>Enrol the first robot.</li>
            <li>Invite people, each with a token of their own; then revoke this one.</li>
          </ol>
        </div>
      )}
    </Dialog>
  );
}
