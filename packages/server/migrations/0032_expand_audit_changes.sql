-- Entries of requests and streams that can change something. Streams that only read, such as logs, can outnumber them by far.
create index audit_entry_changes on audit_entry (org_id, id)
  where method <> 'GET' or data ->> 'stream' in ('shell', 'forward', 'files');
