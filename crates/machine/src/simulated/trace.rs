//! What happens, in words: the readable trace, and the texts of failures.

use std::panic::Location;

use super::raw::AddressRange;
use super::state::{State, Thread};

impl State {
    /// Which threads wait, after a deadlock.
    pub fn describe_deadlock(&self) -> String {
        let mut text = String::from("no thread can go on:");
        for (index, thread) in self.threads.iter().enumerate() {
            let what = match thread {
                Thread { finished: true, .. } => "finished",
                Thread { abandoned: true, .. } => "stopped for ever",
                Thread { held: true, .. } => "not started",
                _ => "waits for a store of another thread",
            };
            text.push_str(&format!(" T{index} {what};"));
        }
        text
    }

    /// Which thread took an address out of use that the running one touches.
    pub fn describe_dead(&self, address: usize, write: bool) -> String {
        let verb = if write { "writes" } else { "reads" };
        let (thread, name) = (self.current, self.space.name(address));
        let offset = self.space.offset(address);
        match offset.and_then(|offset| self.space.find_freed(offset)) {
            Some(freed) => format!(
                "T{thread} {verb} {name}, which T{} took out of use at step {} (now {})",
                freed.thread, freed.step, self.steps
            ),
            None => format!("T{thread} {verb} {name}, which was never handed out"),
        }
    }

    /// Notes an access in the fingerprint and, if wanted, in the readable trace.
    #[inline]
    pub fn note(
        &mut self,
        verb: &'static str,
        place: AddressRange,
        value: u64,
        at: &'static Location<'static>,
    ) {
        let offset = self.space.offset(place.address);
        // Values outside the pool may be addresses, which differ between machines.
        let in_pool = offset.is_some_and(|offset| offset < self.space.pool_bytes);
        let visible = if in_pool { value } else { 0 };
        let seen = (offset.unwrap_or(0) as u64) << 16
            ^ (self.current as u64) << 8
            ^ u64::from(verb.as_bytes()[0])
            ^ visible.rotate_left(32);
        self.fingerprint =
            (self.fingerprint ^ seen).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(29);
        self.counts.accesses += 1;
        if self.trace.is_some() {
            let what = match place.size {
                0 => String::new(),
                64 => self.space.name(place.address),
                _ => {
                    format!("{} = {}", self.space.name(place.address), self.show(value, in_pool))
                }
            };
            self.tell(format!("{verb:<8} {what:<24} {}:{}", at.file(), at.line()));
        }
    }

    /// A value as the trace shows it: the same on every machine, though addresses are not.
    fn show(&self, value: u64, in_pool: bool) -> String {
        let address = usize::try_from(value).ok().filter(|_| !in_pool);
        match address {
            Some(address) if self.space.offset(address).is_some() => self.space.name(address),
            Some(address) if address >> 40 != 0 && address >> 47 == 0 => "an address".to_owned(),
            _ => format!("{value:#x}"),
        }
    }

    /// Adds a line to the readable trace.
    pub fn tell(&mut self, text: String) {
        let (step, current) = (self.steps, self.current);
        if let Some(trace) = &mut self.trace {
            trace.push(format!("{step:>5}  T{current}  {text}"));
        }
    }
}
