//! `SCAN`: steps differ, and what all of them show does not.

use std::collections::BTreeSet;

use super::requests::{PATTERNS, Random};
use super::{Connection, Pair, Raw, scanned};

/// Whether the replies to a `SCAN` may differ: if it did not show all of it in one step in both.
pub fn may_differ(request: &[Vec<u8>], redis: &Raw, ours: &Raw) -> bool {
    let is_done = |raw: &Raw| raw.children[0].bytes == b"$1\r\n0\r\n";
    let has_two_stars = request.iter().any(|argument| argument == b"**");
    let shown = |raw: &Raw| scanned(&raw.children[1], 1, false, has_two_stars);
    let is_all = request[1] == b"0" && is_done(redis) && is_done(ours);
    !is_all || shown(redis) == shown(ours)
}

/// What all steps of a scan show.
fn shown(connection: &mut Connection, options: &[Vec<u8>]) -> BTreeSet<Vec<u8>> {
    let (mut cursor, mut keys) = (b"0".to_vec(), BTreeSet::new());
    loop {
        let reply = connection.ask(&[&[b"SCAN".to_vec(), cursor][..], options].concat());
        keys.extend(reply.children[1].children.iter().map(|key| key.bytes.clone()));
        let mut lines = reply.children[0].bytes.split(|byte| *byte == b'\n');
        cursor = lines.nth(1).unwrap().trim_ascii_end().to_vec();
        if cursor == b"0" {
            return keys;
        }
    }
}

impl Pair {
    /// Compares what scans show that nobody disturbs.
    pub fn scan_all(&mut self, random: &mut Random) -> Result<(), String> {
        self.line(0, "RESET");
        for count in [1, 3, 1000] {
            let mut options = vec![b"COUNT".to_vec(), count.to_string().into_bytes()];
            let has_pattern = random.is(50);
            let pattern = random.one(PATTERNS);
            if has_pattern {
                options.extend([b"MATCH".to_vec(), pattern.to_vec()]);
            }
            if random.is(30) {
                let kind = random.one(&["string", "list", "hash", "set", "zset"]);
                options.extend([b"TYPE".to_vec(), kind.as_bytes().to_vec()]);
            }
            let (redis, mut ours) =
                (shown(&mut self.redis[0], &options), shown(&mut self.ours[0], &options));
            if has_pattern && pattern == b"**" {
                // There the empty key matches one star only.
                ours.remove(&b"$0\r\n\r\n"[..]);
            }
            if redis != ours {
                let text = |keys: BTreeSet<Vec<u8>>| keys.into_iter().collect::<Vec<_>>().concat();
                return Err(format!(
                    "SCAN {}\n  redis {}\n  ours  {}",
                    options.join(&b' ').escape_ascii(),
                    text(redis).escape_ascii(),
                    text(ours).escape_ascii()
                ));
            }
        }
        Ok(())
    }
}
