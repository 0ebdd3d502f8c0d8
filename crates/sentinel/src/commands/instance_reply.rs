//! The form of an instance in replies.

use crate::model::instance::{Flags, InstanceId, Kind, Role};
use crate::watch::Watch;
use resp::reply::Reply;

/// Fields with their values; numbers are text here, as everywhere in this reply.
#[derive(Default)]
struct Fields(Vec<(&'static str, Vec<u8>)>);

impl Fields {
    fn text(&mut self, name: &'static str, value: impl AsRef<[u8]>) {
        self.0.push((name, value.as_ref().to_vec()));
    }

    fn number(&mut self, name: &'static str, value: i64) {
        self.text(name, value.to_string());
    }
}

/// Writes several, without replicas that are not announced.
pub(super) fn reply_instances(watch: &Watch, ids: &[InstanceId], reply: &mut Reply) {
    let shown = |id: &&InstanceId| {
        let instance = &watch[**id];
        instance.kind != Kind::Replica || instance.reported.announced
    };
    reply.array(ids.iter().filter(shown).count());
    ids.iter().filter(shown).for_each(|&id| reply_instance(watch, id, reply));
}

pub(super) fn reply_instance(watch: &Watch, id: InstanceId, reply: &mut Reply) {
    let mut fields = Fields::default();
    link_fields(watch, id, &mut fields);
    match watch[id].kind {
        Kind::Primary => primary_fields(watch, id, &mut fields),
        Kind::Replica => replica_fields(watch, id, &mut fields),
        Kind::Sentinel => sentinel_fields(watch, id, &mut fields),
    }
    reply.map(fields.0.len());
    for (name, value) in fields.0 {
        reply.bulk(name.as_bytes());
        reply.bulk(&value);
    }
}

fn link_fields(watch: &Watch, id: InstanceId, fields: &mut Fields) {
    let instance = &watch[id];
    let link = watch.link(id);
    let since = |time: i64| watch.now() - time;
    let since_if = |time: i64| if time == 0 { 0 } else { watch.now() - time };
    fields.text("name", &instance.name);
    fields.text("ip", watch.announced(&instance.address));
    fields.number("port", i64::from(instance.address.port));
    fields.text("runid", instance.run_id.as_deref().unwrap_or_default());
    fields.text("flags", flag_words(watch, id));
    fields.number("link-pending-commands", link.pending() as i64);
    fields.number("link-refcount", link.users as i64);
    if instance.flags.has(Flags::FAILOVER_IN_PROGRESS) {
        fields.text("failover-state", watch.group(id).failover.state.word());
    }
    fields.number("last-ping-sent", since_if(link.open_ping));
    fields.number("last-ok-ping-reply", since(link.last_available));
    fields.number("last-ping-reply", since(link.last_pong));
    if instance.flags.has(Flags::S_DOWN) {
        fields.number("s-down-time", since(instance.s_down_since));
    }
    if instance.flags.has(Flags::O_DOWN) {
        fields.number("o-down-time", since(instance.o_down_since));
    }
    fields.number("down-after-milliseconds", instance.down_after);
    if instance.kind != Kind::Sentinel {
        let primary = instance.reported.role == Some(Role::Primary);
        fields.number("info-refresh", since_if(instance.info_refresh));
        fields.text("role-reported", if primary { "master" } else { "slave" });
        fields.number("role-reported-time", since(instance.reported.role_since));
    }
}

fn primary_fields(watch: &Watch, id: InstanceId, fields: &mut Fields) {
    let group = watch.group(id);
    fields.number("config-epoch", group.config_epoch.cast_signed());
    fields.number("num-slaves", group.replicas.len() as i64);
    fields.number("num-other-sentinels", group.sentinels.len() as i64);
    fields.number("quorum", group.quorum);
    fields.number("failover-timeout", group.failover_timeout);
    fields.number("parallel-syncs", group.parallel_syncs);
    if let Some(script) = &group.notification_script {
        fields.text("notification-script", script);
    }
    if let Some(script) = &group.client_reconfig_script {
        fields.text("client-reconfig-script", script);
    }
}

fn replica_fields(watch: &Watch, id: InstanceId, fields: &mut Fields) {
    let reported = &watch[id].reported;
    fields.number("master-link-down-time", reported.primary_link_down);
    fields.text("master-link-status", if reported.primary_link_up { "ok" } else { "err" });
    fields.text("master-host", reported.primary_host.as_deref().unwrap_or("?"));
    fields.number("master-port", reported.primary_port);
    fields.number("slave-priority", reported.priority);
    fields.number("slave-repl-offset", reported.offset.cast_signed());
    fields.number("replica-announced", i64::from(reported.announced));
}

fn sentinel_fields(watch: &Watch, id: InstanceId, fields: &mut Fields) {
    let instance = &watch[id];
    fields.number("last-hello-message", watch.now() - instance.last_hello);
    fields.text("voted-leader", instance.leader.as_deref().unwrap_or("?"));
    fields.number("voted-leader-epoch", instance.leader_epoch.cast_signed());
}

fn flag_words(watch: &Watch, id: InstanceId) -> String {
    let instance = &watch[id];
    let disconnected = watch.link(id).disconnected;
    let named = [
        (Flags::S_DOWN, "s_down"),
        (Flags::O_DOWN, "o_down"),
        (Flags::default(), instance.kind.word()),
        (Flags::default(), if disconnected { "disconnected" } else { "" }),
        (Flags::PRIMARY_DOWN, "master_down"),
        (Flags::FAILOVER_IN_PROGRESS, "failover_in_progress"),
        (Flags::PROMOTED, "promoted"),
        (Flags::RECONF_SENT, "reconf_sent"),
        (Flags::RECONF_IN_PROGRESS, "reconf_inprog"),
        (Flags::RECONF_DONE, "reconf_done"),
        (Flags::FORCE_FAILOVER, "force_failover"),
        (Flags::COORDINATED_FAILOVER, "coordinated_failover"),
        (Flags::SCRIPT_KILL_SENT, "script_kill_sent"),
        (Flags::PRIMARY_REBOOT, "master_reboot"),
    ];
    let shown = named
        .iter()
        .filter(|(flag, word)| !word.is_empty() && (*flag == Flags::default() || instance.flags.has(*flag)));
    shown.map(|(_, word)| *word).collect::<Vec<_>>().join(",")
}
