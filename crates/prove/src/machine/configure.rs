//! Configurations: which machine a number stands for.

use everleaf_machine::simulated::{Config, Domain, MemoryModel, SchedulerKind};

/// What a search is held to; what is left open takes turns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fixed {
    /// What a crash keeps.
    pub domain: Option<Domain>,
    /// What threads see of each other.
    pub memory: Option<MemoryModel>,
}

impl Fixed {
    /// Whether a configuration is as this asks.
    pub fn admits(&self, config: &Config) -> bool {
        self.domain.is_none_or(|domain| domain == config.domain)
            && self.memory.is_none_or(|memory| memory == config.memory)
    }
}

/// The name of a domain in records and on the command line.
pub fn domain_name(domain: Domain) -> &'static str {
    match domain {
        Domain::Adr => "adr",
        Domain::Eadr => "eadr",
        Domain::Process => "process",
    }
}

/// The name of a memory model in records and on the command line.
pub fn memory_name(memory: MemoryModel) -> &'static str {
    match memory {
        MemoryModel::Sc => "sc",
        MemoryModel::Tso => "tso",
        MemoryModel::Weak => "weak",
    }
}

/// The configuration of the given number: all domains and memory models take turns, as do the
/// meaning of locked operations for flushes, torn matches, wide comparisons, and the check of orderings.
pub fn vary(number: u64, base: &Config) -> Config {
    vary_but(number, base, Fixed::default())
}

/// As [`vary`], but for what is fixed.
pub fn vary_but(number: u64, base: &Config, fixed: Fixed) -> Config {
    let domains = [Domain::Adr, Domain::Eadr, Domain::Adr, Domain::Process];
    let domain = fixed.domain.unwrap_or(domains[(number % 4) as usize]);
    let usual = if number % 3 == 1 { MemoryModel::Tso } else { MemoryModel::Sc };
    let memory = fixed.memory.unwrap_or(usual);
    Config {
        domain,
        memory,
        rmw_drains: number % 8 == 2,
        torn_matches: number % 5 == 3,
        wide_compares: number % 7 >= 5,
        races: memory == MemoryModel::Sc && number.is_multiple_of(2),
        seed: base.seed.wrapping_mul(0x1_0000_0001).wrapping_add(number),
        ..base.clone()
    }
}

/// A search through every order with at most `preemptions` preemptions.
pub fn exhaustive(base: &Config, preemptions: u32) -> Config {
    Config { scheduler: SchedulerKind::Dfs { preemptions }, ..base.clone() }
}
