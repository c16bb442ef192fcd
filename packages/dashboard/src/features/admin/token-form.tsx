import { useState } from "react";
import { Button, Card, Command, PageHeader, TextInput } from "../../ui/index.ts";
import type { Refusal } from "./admin-client.ts";

interface Parts {
  refusal: Refusal;
  /** The server's error for the last attempt. */
  message: string | undefined;
  busy: boolean;
  onToken: (token: string) => void;
}

/** Asks for the admin token from the server's configuration, which differs from tokens of organizations and users. */
export function TokenForm({ refusal, message, busy, onToken }: Parts) {
  const [token, setToken] = useState("");
  return (
    <div className="mx-auto max-w-md pt-8">
      <PageHeader
        title="Service admin"
        label="Service admin"
        meta="For the administrators of this server: create, approve and suspend organizations."
      />
      <Card>
        {refusal === "elsewhere" ? (
          <div className="space-y-3">
            <p role="alert">{message}.</p>
            <p className="text-muted">Open this page on the server's machine, or start the server with a token:</p>
            <Command>{"SERVICE_ADMIN_TOKEN=$(openssl rand -hex 32) roamfleet serve …"}</Command>
          </div>
        ) : (
          <form
            onSubmit={(event) => {
              event.preventDefault();
              if (token.trim() !== "") onToken(token.trim());
            }}
          >
            <TextInput
              label="Admin token"
              type="password"
              autoComplete="off"
              autoFocus
              spellCheck={false}
              required
              value={token}
              onChange={(event) => setToken(event.target.value)}
              hint="The server's SERVICE_ADMIN_TOKEN. It is kept in memory until you leave this page."
              error={message}
            />
            <Button look="primary" type="submit" className="w-full" busy={busy}>
              Continue
            </Button>
          </form>
        )}
      </Card>
    </div>
  );
}
