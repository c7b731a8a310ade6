//! The commands: what their arguments mean, what they answer, and what replicas are told.
//!
//! A command that changes something tells replicas and the append-only file what it did, with times
//! that are absolute. An entry that has expired is removed first, and that is told too: a replica does
//! not look at its clock, so it must not meet what its master took for absent.

use std::collections::BTreeSet;
use std::ops::Bound;

use everleaf_index::IndexError;

use crate::arguments::{self, Condition, Listing, Time};
use crate::call::{Call, Key, Refusal};
use crate::entry::Entry;
use crate::map::{ALL, Bounds, OrderedMap};

type Done = Result<(), Refusal>;

/// `EL.PUT key entry value [NX | XX] [EX s | PX ms | EXAT s | PXAT ms | KEEPTTL]`
pub fn put(call: &Call<'_>) -> Done {
    let (name, value) = (call.argument(2), call.argument(3));
    let options = arguments::put_options(call, 4)?;
    let expiry_ms = match options.time {
        Time::At(time) => time,
        Time::None | Time::Keep => 0,
    };
    let mut entry = Entry { name, value, expiry_ms };
    entry.check()?;
    let mut key = call.open_for_writing()?;
    call.remove_expired(&mut key, &[name])?;
    let found = match key.map() {
        Some(map) => map.get(name, 0, |entry| entry.expiry_ms)?,
        None => None,
    };
    let refused = match options.condition {
        Condition::Absent => found.is_some(),
        Condition::Present => found.is_none(),
        Condition::None => false,
    };
    if refused {
        call.reply_null();
        return Ok(());
    }
    if options.time == Time::Keep {
        entry.expiry_ms = found.unwrap_or(0);
    }
    if entry.expiry_ms != 0 && entry.has_expired(call.now()) {
        // A time that is over, as with the server's own keys: the entry is gone at once.
        return forget(call, &mut key, found.is_some());
    }
    key.create()?.put(entry)?;
    if entry.expiry_ms == 0 {
        call.replicate("EL.PUT", &[call.string(1), call.string(2), call.string(3)]);
    } else {
        let (at, time) = (call.new_string(b"PXAT"), call.new_number(entry.expiry_ms));
        let arguments = [call.string(1), call.string(2), call.string(3), at.raw(), time.raw()];
        call.replicate("EL.PUT", &arguments);
    }
    key.changed("el.put");
    call.reply_number(i64::from(found.is_none()));
    Ok(())
}

/// An entry was given a time that is over.
fn forget(call: &Call<'_>, key: &mut Key<'_>, was_there: bool) -> Done {
    if was_there && let Some(map) = key.map() {
        map.remove(call.argument(2))?;
        call.replicate("EL.DEL", &[call.string(1), call.string(2)]);
        key.changed("el.del");
    }
    call.reply_number(i64::from(!was_there));
    Ok(())
}

/// `EL.MPUT key entry value [entry value ...]`
pub fn put_many(call: &Call<'_>) -> Done {
    if !call.len().is_multiple_of(2) {
        return Err(Refusal::arity());
    }
    let pairs = (2..call.len()).step_by(2);
    let entry_at =
        |at| Entry { name: call.argument(at), value: call.argument(at + 1), expiry_ms: 0 };
    for at in pairs.clone() {
        entry_at(at).check()?;
    }
    let mut key = call.open_for_writing()?;
    let names: Vec<&[u8]> = pairs.clone().map(|at| call.argument(at)).collect();
    call.remove_expired(&mut key, &names)?;
    let mut added = 0;
    for at in pairs {
        match key.create()?.put(entry_at(at)) {
            Ok(old) => added += i64::from(old.is_none()),
            Err(error) => {
                // No memory: what was put stays, and replicas put as much.
                if at > 2 {
                    call.replicate("EL.MPUT", &call.strings()[1..at]);
                    key.changed("el.put");
                }
                return Err(error.into());
            }
        }
    }
    call.replicate_verbatim();
    key.changed("el.put");
    call.reply_number(added);
    Ok(())
}

/// `EL.GET key entry`
pub fn get(call: &Call<'_>) -> Done {
    let key = call.open_for_reading()?;
    let Some(map) = key.map_to_read() else {
        call.reply_null();
        return Ok(());
    };
    let now = call.now_of(map);
    let found = map.get(call.argument(2), now, |entry| call.reply_bytes(entry.value))?;
    if found.is_none() {
        call.reply_null();
    }
    Ok(())
}

/// `EL.MGET key entry [entry ...]`
pub fn get_many(call: &Call<'_>) -> Done {
    let key = call.open_for_reading()?;
    let now = key.map_to_read().map_or(0, |map| call.now_of(map));
    call.begin_array(call.len() - 2);
    for at in 2..call.len() {
        let name = call.argument(at);
        let found = match key.map_to_read() {
            // An array that was begun cannot become an error: damaged memory reads as absent.
            Some(map) => map.get(name, now, |entry| call.reply_bytes(entry.value)).unwrap_or(None),
            None => None,
        };
        if found.is_none() {
            call.reply_null();
        }
    }
    Ok(())
}

/// `EL.DEL key entry [entry ...]`
pub fn remove(call: &Call<'_>) -> Done {
    let mut key = call.open_for_writing()?;
    let now = key.map().map_or(0, |map| call.now_of(map));
    let mut arguments = vec![call.string(1)];
    let (mut count, mut error) = (0, None);
    if let Some(map) = key.map() {
        for at in 2..call.len() {
            match map.remove(call.argument(at)) {
                Ok(Some(old)) => {
                    arguments.push(call.string(at));
                    count += i64::from(old.expiry_ms == 0 || now == 0 || old.expiry_ms > now);
                }
                Ok(None) => {}
                Err(refused) => error = Some(refused),
            }
        }
    }
    if arguments.len() > 1 {
        call.replicate("EL.DEL", &arguments);
        key.changed("el.del");
    }
    // No memory: what could be removed was, and replicas remove as much.
    error.map_or(Ok(()), |error| Err(error.into())).map(|()| call.reply_number(count))
}

/// `EL.RANGE key min max [REV] [LIMIT count] [NOVALUES]`
pub fn range(call: &Call<'_>) -> Done {
    let bounds = arguments::range(call.argument(2), call.argument(3))?;
    list(call, bounds, &arguments::listing(call, 4)?)
}

/// `EL.PREFIX key prefix [REV] [LIMIT count] [NOVALUES]`
pub fn prefix(call: &Call<'_>) -> Done {
    let prefix = call.argument(2);
    let end = arguments::end_of_prefix(prefix);
    let to = end.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
    list(call, Some((Bound::Included(prefix), to)), &arguments::listing(call, 3)?)
}

fn list(call: &Call<'_>, bounds: Option<Bounds<'_>>, listing: &Listing) -> Done {
    let key = call.open_for_reading()?;
    let mut left = listing.limit;
    let Some((map, bounds)) = key.map_to_read().zip(bounds.filter(|_| left > 0)) else {
        call.begin_array(0);
        return Ok(());
    };
    call.begin_array_of_unknown_length();
    let (now, mut length) = (call.now_of(map), 0);
    // Damaged memory ends the list: the array was begun.
    let _ = map.walk(bounds, listing.reverse, &mut |entry| {
        if entry.has_expired(now) {
            return true;
        }
        call.reply_bytes(entry.name);
        if listing.values {
            call.reply_bytes(entry.value);
        }
        length += 1 + usize::from(listing.values);
        left -= 1;
        left > 0
    });
    call.end_array(length);
    Ok(())
}

/// `EL.COUNT key [min max]`
pub fn count(call: &Call<'_>) -> Done {
    let bounds = match call.len() {
        2 => Some(ALL),
        4 => arguments::range(call.argument(2), call.argument(3))?,
        _ => return Err(Refusal::arity()),
    };
    let key = call.open_for_reading()?;
    let mut count = 0;
    if let Some((map, bounds)) = key.map_to_read().zip(bounds) {
        let now = call.now_of(map);
        if call.len() == 2 {
            count = map.live_len(now)?;
        } else {
            map.walk(bounds, false, &mut |entry| {
                count += u64::from(!entry.has_expired(now));
                true
            })?;
        }
    }
    call.reply_number(count as i64);
    Ok(())
}

/// `EL.FLOOR key entry`
pub fn floor(call: &Call<'_>) -> Done {
    neighbour(call, (Bound::Unbounded, Bound::Included(call.argument(2))), true)
}

/// `EL.CEILING key entry`
pub fn ceiling(call: &Call<'_>) -> Done {
    neighbour(call, (Bound::Included(call.argument(2)), Bound::Unbounded), false)
}

fn neighbour(call: &Call<'_>, bounds: Bounds<'_>, reverse: bool) -> Done {
    let key = call.open_for_reading()?;
    let mut found = false;
    if let Some(map) = key.map_to_read() {
        let now = call.now_of(map);
        map.walk(bounds, reverse, &mut |entry| {
            if entry.has_expired(now) {
                return true;
            }
            found = true;
            call.begin_array(2);
            call.reply_bytes(entry.name);
            call.reply_bytes(entry.value);
            false
        })?;
    }
    if !found {
        call.reply_null_array();
    }
    Ok(())
}

/// `EL.CAS key entry expected new`
pub fn compare_and_swap(call: &Call<'_>) -> Done {
    let (name, expected, value) = (call.argument(2), call.argument(3), call.argument(4));
    let mut entry = Entry { name, value, expiry_ms: 0 };
    entry.check()?;
    let mut key = call.open_for_writing()?;
    call.remove_expired(&mut key, &[name])?;
    let matching = |found: Entry<'_>| (found.value == expected).then_some(found.expiry_ms);
    let found = match key.map() {
        Some(map) => map.get(name, 0, matching)?.flatten(),
        None => None,
    };
    let Some(expiry_ms) = found else {
        call.reply_number(0);
        return Ok(());
    };
    entry.expiry_ms = expiry_ms;
    key.create()?.put(entry)?;
    call.replicate_verbatim();
    key.changed("el.put");
    call.reply_number(1);
    Ok(())
}

/// `EL.INCRBY key entry amount`
pub fn increment(call: &Call<'_>) -> Done {
    let name = call.argument(2);
    let amount = arguments::integer(call.argument(3))?;
    Entry { name, value: &[], expiry_ms: 0 }.check()?;
    let mut key = call.open_for_writing()?;
    call.remove_expired(&mut key, &[name])?;
    let number = |entry: Entry<'_>| arguments::integer(entry.value).map(|n| (n, entry.expiry_ms));
    let found = match key.map() {
        Some(map) => map.get(name, 0, number)?.transpose()?,
        None => None,
    };
    let (old, expiry_ms) = found.unwrap_or((0, 0));
    let sum = old.checked_add(amount);
    let sum = sum.ok_or(Refusal::plain("ERR increment or decrement would overflow"))?;
    key.create()?.put(Entry { name, value: sum.to_string().as_bytes(), expiry_ms })?;
    call.replicate_verbatim();
    key.changed("el.incrby");
    call.reply_number(sum);
    Ok(())
}

/// `EL.EXPIREAT key seconds entry [entry ...]`
pub fn expire_at(call: &Call<'_>) -> Done {
    let time = arguments::time(call.argument(2), 1000, 0)?;
    expire(call, 3, time)
}

/// `EL.PEXPIREAT key milliseconds entry [entry ...]`
pub fn expire_at_ms(call: &Call<'_>) -> Done {
    let time = arguments::time(call.argument(2), 1, 0)?;
    expire(call, 3, time)
}

/// `EL.PERSIST key entry [entry ...]`
pub fn persist(call: &Call<'_>) -> Done {
    expire(call, 2, 0)
}

/// Gives the entries from argument `first` on this expiry (0 for none); those that lose one they had
/// count only then.
fn expire(call: &Call<'_>, first: usize, expiry_ms: u64) -> Done {
    let mut key = call.open_for_writing()?;
    let is_over = expiry_ms != 0 && expiry_ms <= call.now();
    let names: Vec<&[u8]> = (first..call.len()).map(|at| call.argument(at)).collect();
    call.remove_expired(&mut key, &names)?;
    let (mut count, mut touched, mut error) = (0, vec![], None);
    let mut seen = BTreeSet::new();
    if let Some(map) = key.map() {
        for at in (first..call.len()).filter(|at| seen.insert(call.argument(*at))) {
            match set_expiry(map, call.argument(at), expiry_ms, is_over) {
                Ok(Some(is_changed)) => {
                    count += 1;
                    touched.extend(is_changed.then(|| call.string(at)));
                }
                Ok(None) => {}
                Err(refused) => error = Some(refused),
            }
        }
    }
    if !touched.is_empty() {
        let time = call.new_number(expiry_ms);
        let mut arguments = vec![call.string(1)];
        if expiry_ms != 0 && !is_over {
            arguments.push(time.raw());
        }
        arguments.extend(touched);
        let (command, event) = match expiry_ms {
            0 => ("EL.PERSIST", "el.persist"),
            _ if is_over => ("EL.DEL", "el.del"),
            _ => ("EL.PEXPIREAT", "el.expire"),
        };
        call.replicate(command, &arguments);
        key.changed(event);
    }
    // No memory: what could be changed was, and replicas change as much.
    error.map_or(Ok(()), |error| Err(error.into())).map(|()| call.reply_number(count))
}

/// Gives an entry an expiry, or removes it if that is over. Returns whether that changed anything; `None` if there is
/// no such entry, or none that could lose an expiry.
fn set_expiry(
    map: &mut OrderedMap,
    name: &[u8],
    expiry_ms: u64,
    is_over: bool,
) -> Result<Option<bool>, IndexError> {
    let found = map.get(name, 0, |entry| (entry.value.to_vec(), entry.expiry_ms))?;
    let Some((value, old)) = found.filter(|(_, old)| expiry_ms != 0 || *old != 0) else {
        return Ok(None);
    };
    if is_over {
        map.remove(name)?;
    } else if old != expiry_ms {
        map.put(Entry { name, value: &value, expiry_ms })?;
    }
    Ok(Some(is_over || old != expiry_ms))
}

/// `EL.PEXPIRETIME key entry`
pub fn expire_time(call: &Call<'_>) -> Done {
    let key = call.open_for_reading()?;
    let found = match key.map_to_read() {
        Some(map) => map.get(call.argument(2), call.now_of(map), |entry| entry.expiry_ms)?,
        None => None,
    };
    call.reply_number(match found {
        None => -2,
        Some(0) => -1,
        Some(time) => time as i64,
    });
    Ok(())
}

/// `EL.SCAN key cursor [PREFIX prefix] [COUNT count] [NOVALUES]`
pub fn scan(call: &Call<'_>) -> Done {
    let scan = arguments::scan(call, 2)?;
    let end = scan.prefix.and_then(arguments::end_of_prefix);
    let to = end.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
    let from = match (scan.after, scan.prefix) {
        (Some(after), Some(prefix)) if after < prefix => Bound::Included(prefix),
        (Some(after), _) => Bound::Excluded(after),
        (None, Some(prefix)) => Bound::Included(prefix),
        (None, None) => Bound::Unbounded,
    };
    let key = call.open_for_reading()?;
    let (mut found, mut left, mut last) = (vec![], scan.count, None);
    if let Some(map) = key.map_to_read().filter(|_| arguments::is_range((from, to))) {
        let now = call.now_of(map);
        map.walk((from, to), false, &mut |entry| {
            if left == 0 {
                return false;
            }
            left -= 1;
            if left == 0 {
                last = Some(entry.name.to_vec());
            }
            if !entry.has_expired(now) {
                found.push((entry.name.to_vec(), scan.values.then(|| entry.value.to_vec())));
            }
            true
        })?;
    }
    call.begin_array(2);
    match last {
        Some(name) => call.reply_bytes(&[b">", name.as_slice()].concat()),
        None => call.reply_bytes(b"0"),
    }
    call.begin_array(found.len() * (1 + usize::from(scan.values)));
    for (name, value) in found {
        call.reply_bytes(&name);
        if let Some(value) = value {
            call.reply_bytes(&value);
        }
    }
    Ok(())
}

/// `EL.INFO key`
pub fn info(call: &Call<'_>) -> Done {
    let key = call.open_for_reading()?;
    let Some(map) = key.map_to_read() else {
        call.reply_null_array();
        return Ok(());
    };
    let fields = [("entries", map.len()), ("expiring", map.volatile()), ("bytes", map.memory())];
    call.begin_array(2 + 2 * fields.len());
    call.reply_bytes(b"encoding");
    call.reply_bytes(map.encoding().as_bytes());
    for (name, value) in fields {
        call.reply_bytes(name.as_bytes());
        call.reply_number(value as i64);
    }
    Ok(())
}
