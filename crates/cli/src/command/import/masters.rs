//! The masters of a cluster as one source: each is read by itself, and none may give a slot to another meanwhile.
//!
//! A key that moves from a server that was not read yet to one that was is seen by neither reading, and a second pass
//! may miss it again. So each pass ends with the question whether slots moved, and all is refused if some did.

use super::item::Item;
use super::live::Live;
use crate::exit_code::ExitCode;
use crate::failure::Failure;
use crate::redis::address::Address;
use crate::redis::client::Client;
use crate::redis::connect;
use crate::redis::layout::Layout;
use std::path::Path;
use std::time::Duration;

/// A cluster.
pub(in crate::command) struct Masters {
    /// Where the layout is asked for.
    client: Client,
    address: Address,
    layout: Layout,
    /// By the numbers of the layout.
    lives: Vec<Live>,
}

impl Masters {
    /// Connects to all masters, of which any server of the cluster tells.
    pub fn connect(
        address: &Address,
        cacert: Option<&Path>,
        patience: Duration,
        whole_size_max: u64,
    ) -> Result<Self, Failure> {
        let mut client = connect(address, cacert, patience)?;
        let layout = Layout::ask(&mut client, address)?;
        let live_at = |(host, port): &(String, u16)| {
            let master = Address { database: Some(0), ..address.at(host, *port) };
            Live::connect(&master, cacert, patience, whole_size_max)
        };
        let lives = layout.masters().iter().map(live_at).collect::<Result<_, _>>()?;
        let mut masters = Masters { client, address: address.clone(), layout, lives };
        masters.demand_rest()?;
        Ok(masters)
    }

    /// How many keys there are, if all told.
    pub fn key_count(&self) -> Option<u64> {
        self.lives.iter().map(Live::key_count).sum()
    }

    /// Shows all keys.
    pub fn each(
        &mut self,
        see: &mut dyn FnMut(Item) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        self.lives.iter_mut().try_for_each(|live| live.each(see))?;
        self.demand_rest()
    }

    /// Which of some keys are not there any more.
    pub fn gone(&mut self, keys: Vec<Vec<u8>>) -> Result<Vec<Vec<u8>>, Failure> {
        let mut shares = vec![Vec::new(); self.lives.len()];
        keys.into_iter().for_each(|key| shares[self.layout.owner_of(&key)].push(key));
        let mut gone = Vec::new();
        for (live, share) in self.lives.iter_mut().zip(shares) {
            gone.extend(live.gone(0, share)?);
        }
        Ok(gone)
    }

    /// Refuses a cluster of which slots move, or have moved since we connected.
    pub fn demand_rest(&mut self) -> Result<(), Failure> {
        let mut is_at_rest = true;
        for live in &mut self.lives {
            is_at_rest &= !live.has_open_slots()?;
            // A move that has ended is told to the others a moment later; those that took part know of it.
            is_at_rest &= live.layout(&self.address)?.has_same_shares(&self.layout);
        }
        match is_at_rest && Layout::ask(&mut self.client, &self.address)? == self.layout {
            true => Ok(()),
            false => Err(Failure::new(
                ExitCode::Io,
                format!(
                    "slots of the cluster of {} moved while it was read, and keys with them, which may be missed: \
                     begin anew when none does",
                    self.address.place()
                ),
            )),
        }
    }
}
