import { ID_PREFIXES } from "@roamfleet/protocol";
import { type Delivery, routes } from "@roamfleet/protocol/routes";
import type { Plane } from "../../../context.ts";
import { changesBetween } from "../../../kernel/audit.ts";
import type { Db } from "../../../kernel/db.ts";
import { conflict, found } from "../../../kernel/fault.ts";
import type { Http } from "../../../kernel/http.ts";
import { readPage } from "../../../kernel/page.ts";
import { created, serve } from "../../../kernel/serve.ts";
import { wireTimes } from "../../../kernel/time.ts";
import { changeChannel, createChannel, removeChannel } from "./channels.ts";
import { testMessage } from "./message.ts";
import { GIVE_UP_MS, queueDeliveries, senderHint } from "./outbox.ts";
import { findChannel, findDelivery, listChannels, listDeliveries, lockChannel, reviveDelivery } from "./store.ts";

export function channelRoutes(http: Http, plane: Plane): void {
  serve(http, plane, routes.listChannels, (_, { query, caller, db }) =>
    readPage(query, [routes.listChannels.name, caller.org_id], (window) => listChannels(db, caller.org_id, window), wireTimes),
  );

  serve(http, plane, routes.createChannel, async (_, { body, caller, db }) =>
    created(routes.createChannel.path, { data: wireTimes(await createChannel(plane, db, caller, body)) }),
  );

  serve(http, plane, routes.getChannel, async (_, { params, caller, db }) => ({
    data: wireTimes(found(await findChannel(db, caller.org_id, params.id), "channel", params.id)),
  }));

  serve(http, plane, routes.updateChannel, async (_, { params, body, caller, db, audit }) => {
    const { before, after } = await changeChannel(plane, db, caller, params.id, body);
    audit.data = changesBetween(wireTimes(before), wireTimes(after), ["name", "destination", "routes", "disabled_at"]);
    return { data: wireTimes(after) };
  });

  serve(http, plane, routes.deleteChannel, async (_, { params, caller, db }) => ({
    data: wireTimes(await removeChannel(plane, db, caller, params.id)),
  }));

  serve(http, plane, routes.testChannel, async (_, { params, caller, db }) => ({
    data: await queueTest(plane, db, caller.org_id, params.id),
  }));

  serve(http, plane, routes.listDeliveries, async (_, { params, query, caller, db }) => {
    const { org_id } = caller;
    found(await findChannel(db, org_id, params.id), "channel", params.id);
    const filter = { channel_id: params.id, status: query.status };
    return await readPage(
      query,
      [routes.listDeliveries.name, org_id, params.id],
      (window) => listDeliveries(db, org_id, filter, window),
      wireTimes,
    );
  });

  serve(http, plane, routes.resendDelivery, async (_, { params, caller, db }) => ({
    data: await resend(plane, db, caller.org_id, params.id),
  }));
}

const readDelivery = async (db: Db, org_id: string, id: string): Promise<Delivery> =>
  wireTimes(found(await findDelivery(db, org_id, id), "delivery", id));

const requireEnabled = ({ id, disabled_at }: { id: string; disabled_at: Date | null }): void => {
  if (disabled_at !== null) throw conflict(`channel ${id} is disabled: enable it first`);
};

const queueTest = (plane: Plane, db: Db, org_id: string, channel_id: string): Promise<Delivery> =>
  db.transaction(async (tx) => {
    requireEnabled(found(await lockChannel(tx, org_id, channel_id), "channel", channel_id));
    const now = plane.clock.now();
    const id = plane.id(ID_PREFIXES.delivery);
    const message = testMessage(now);
    await queueDeliveries(tx, plane, org_id, [{ id, channel_id, incident_id: null, kind: "test", message }], now);
    return await readDelivery(tx, org_id, id);
  });

const resend = (plane: Plane, db: Db, org_id: string, id: string): Promise<Delivery> =>
  db.transaction(async (tx) => {
    const { channel_id } = await readDelivery(tx, org_id, id);
    requireEnabled(found(await lockChannel(tx, org_id, channel_id), "delivery", id));
    const { status } = await readDelivery(tx, org_id, id);
    if (status === "pending") throw conflict(`delivery ${id} is pending: it is sent anyway`);
    const now = plane.clock.now();
    await reviveDelivery(tx, org_id, { id, channel_id }, { now, give_up_at: new Date(now.getTime() + GIVE_UP_MS) });
    tx.afterCommit(() => senderHint(plane).wake());
    return await readDelivery(tx, org_id, id);
  });
