-- A fleet that follows nothing any more: its automatic deployments are withdrawn.
alter table authority_change drop constraint authority_change_kind_check;
alter table authority_change add constraint authority_change_kind_check check (kind in ('user', 'token', 'robot', 'fleet'));
