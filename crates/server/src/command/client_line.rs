//! A connection in one line, as `CLIENT LIST` and the log of refusals tell of it.

use super::facts::COMMANDS;
use crate::registry::Client;

/// One line of `CLIENT LIST`.
pub fn describe(client: &Client, now_ms: u64) -> String {
    let details = client.details();
    let command = COMMANDS.get(client.last_command()).map_or("NULL", |command| command.name);
    format!(
        "id={} addr={} laddr={} name={} age={} idle={} flags={} db={} sub=0 psub=0 multi=-1 \
         tot-mem={} cmd={command} user={} resp={} lib-name={} lib-ver={} loop={}\n",
        client.id,
        client.peer,
        client.local,
        details.name,
        now_ms.saturating_sub(client.created_ms) / 1000,
        now_ms.saturating_sub(client.last_active_ms()) / 1000,
        flags(client.is_waiting(), details.is_monitor, details.no_evict),
        details.database,
        client.memory(),
        details.user.as_ref().map_or_else(String::new, |user| user.shown()),
        details.protocol.number(),
        details.library_name,
        details.library_version,
        client.loop_index,
    )
}

/// A letter for each thing that is so: it is a monitor, it waits, it is not closed for what it holds; or that none is.
fn flags(is_waiting: bool, is_monitor: bool, no_evict: bool) -> String {
    let all = [('O', is_monitor), ('b', is_waiting), ('e', no_evict)];
    let set: String = all.into_iter().filter(|(_, is_so)| *is_so).map(|(flag, _)| flag).collect();
    if set.is_empty() { "N".to_string() } else { set }
}
