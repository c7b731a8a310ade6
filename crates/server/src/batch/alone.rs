//! Requests that are run while nobody else runs one: those that exchange databases, and `FLUSHALL` of several: a key
//! that is moved meanwhile would be in none of them, and be there afterwards.
//!
//! All event loops wait for that, so nobody waits who would be refused anyway: whether the client may run such a
//! request, and whether its arguments are right, is asked before. The first is asked again behind the waiting, in which
//! its rules may have been changed.

use super::Batch;
use crate::command::dispatch::refuse;
use crate::command::keyspace::check_mode;
use crate::command::rename;

impl Batch<'_> {
    /// Whether a request exchanges databases, or empties several.
    #[inline]
    pub(super) fn must_be_alone(&self, rest: &[u8]) -> bool {
        let request = self.parser.request(rest);
        let is = |name: &str| {
            let found = request.get(0);
            found.is_some_and(|found| found.eq_ignore_ascii_case(name.as_bytes()))
        };
        match self.session.transaction.is_open() {
            true => self.session.transaction.exchanges() && is("exec"),
            // One whose arguments are wrong is refused whatever others do.
            false => {
                let databases = &self.shared.databases;
                (is("swapdb") && rename::exchanged(&request, databases.count()).is_ok())
                    || (is("flushall")
                        && check_mode(&request).is_ok()
                        && databases.existing().nth(1).is_some())
            }
        }
    }

    /// Runs the request that was just parsed while nobody else runs one, unless it is refused.
    pub(super) fn run_alone(&mut self, rest: &[u8]) {
        let request = self.parser.request(rest);
        let limit = self.out.len().saturating_add(self.shared.config.reply_size_max);
        let Batch { shared, session, tally, out, .. } = self;
        if refuse(&mut super::context_of(shared, session, tally, out, limit), &request) {
            self.tally.commands += 1;
            return;
        }
        self.entered = None;
        let alone = self.shared.exclusion.be_alone();
        self.run_one(rest);
        drop(alone);
        self.entered = Some(self.shared.exclusion.enter(self.session.client.loop_index));
    }
}

#[cfg(test)]
mod tests {
    use crate::Config;
    use crate::batch::test_run::Bench;

    /// What was done: all event loops waited for each other because somebody who had not given the password, or might
    /// not do so, had sent `SWAPDB`.
    #[test]
    fn nobody_waits_for_an_exchange_that_is_refused() {
        let bench = Bench::new(Config { password: Some("p".into()), ..Bench::config() });
        let alone = || bench.shared.exclusion.alone_count();
        let mut stranger = bench.client();
        for line in ["SWAPDB", "SWAPDB 0 1", "swapdb 0 99"] {
            let reply = bench.run(&mut stranger, line);
            assert!(reply.starts_with("-NOAUTH"), "{line}: {reply}");
        }
        let mut admin = bench.client();
        assert_eq!(bench.run(&mut admin, "AUTH p"), "+OK");
        for (line, expected) in [
            ("SWAPDB 0", "-ERR wrong number of arguments for 'swapdb' command"),
            ("SWAPDB 0 1 2", "-ERR wrong number of arguments for 'swapdb' command"),
            ("SWAPDB 0 99", "-ERR DB index is out of range"),
            ("SWAPDB x 1", "-ERR invalid first DB index"),
            ("ACL SETUSER u on >q ~* +@all -swapdb", "+OK"),
        ] {
            assert_eq!(bench.run(&mut admin, line), expected, "{line}");
        }
        let mut user = bench.client();
        assert_eq!(bench.run(&mut user, "AUTH u q"), "+OK");
        assert!(bench.run(&mut user, "SWAPDB 0 1").starts_with("-NOPERM"));
        assert_eq!(alone(), 0, "each of them was refused");
        assert_eq!(bench.run(&mut admin, "SWAPDB 0 1"), "+OK");
        assert_eq!(alone(), 1);
        // EXEC, of a user whose rules are changed meanwhile.
        assert_eq!(bench.run(&mut admin, "ACL SETUSER u +swapdb"), "+OK");
        assert_eq!(bench.run(&mut user, "MULTI"), "+OK");
        assert_eq!(bench.run(&mut user, "SWAPDB 0 1"), "+QUEUED");
        assert_eq!(bench.run(&mut admin, "ACL SETUSER u -exec"), "+OK");
        assert!(bench.run(&mut user, "EXEC").starts_with("-EXECABORT"));
        assert_eq!(alone(), 1);
        assert_eq!(bench.run(&mut user, "PING"), "+PONG", "the transaction has ended");
        let counts: Vec<u64> = bench.shared.acl.log.newest(9).iter().map(|it| it.count).collect();
        assert_eq!(counts, [1, 1], "each refusal is noted once");
    }

    /// What was left: a key that was moved into a database that `FLUSHALL` had emptied, from one that it came to later.
    #[test]
    fn all_databases_are_emptied_at_one_moment() {
        let bench = Bench::new(Bench::config());
        let alone = || bench.shared.exclusion.alone_count();
        let mut client = bench.client();
        assert_eq!(bench.run(&mut client, "FLUSHALL"), "+OK");
        assert_eq!(alone(), 0, "there is one database");
        for line in ["SELECT 1", "SET k v", "SELECT 0", "SET k v"] {
            assert_eq!(bench.run(&mut client, line), "+OK");
        }
        for line in ["FLUSHALL NOW", "FLUSHALL SYNC ASYNC", "FLUSHDB"] {
            bench.run(&mut client, line);
            assert_eq!(alone(), 0, "{line}");
        }
        assert_eq!(bench.run(&mut client, "FLUSHALL ASYNC"), "+OK");
        assert_eq!(alone(), 1);
        for line in ["SELECT 1", "DBSIZE", "SELECT 0", "DBSIZE"] {
            let expected = if line == "DBSIZE" { ":0" } else { "+OK" };
            assert_eq!(bench.run(&mut client, line), expected);
        }
    }
}
