//! Requests that are run without a socket, in tests.

use std::path::PathBuf;
use std::sync::Arc;

use everleaf::Options;

use super::Batch;
use crate::Config;
use crate::acl::Acl;
use crate::client_state::ClientState;
use crate::resp::Parser;
use crate::shared::{Control, Shared};
use crate::slice::Slice;
use crate::statistics::Tally;

/// What the event loops of a server share, and none of them.
pub struct Bench {
    pub shared: Shared,
    folder: tempfile::TempDir,
}

impl Bench {
    /// A configuration with two threads.
    pub fn config() -> Config {
        Config { threads: 2, ..Config::default() }
    }

    /// On a pool of its own.
    pub fn new(config: Config) -> Self {
        Self::on(config, Options::new())
    }

    /// On a pool of its own that is opened so.
    pub fn on(config: Config, options: Options) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let options = options.create(true).max_size_bytes(256 << 20).sweep(false);
        let store = Arc::new(options.open(folder.path().join("pool")).unwrap());
        let acl = Acl::open(&config).unwrap();
        let control = Arc::new(Control::new(vec![], &[], None, None));
        Bench { shared: Shared::new(config, acl, store, control), folder }
    }

    /// Its pool.
    pub fn path(&self) -> PathBuf {
        self.folder.path().join("pool")
    }

    /// A new client of the first event loop.
    pub fn client(&self) -> ClientState {
        let client = self.shared.registry.add(("a:1".into(), "b:2".into()), 0, 0);
        ClientState::new(client, &self.shared.acl)
    }

    /// Runs a request of words. Returns its reply without the last line's end.
    pub fn run(&self, session: &mut ClientState, line: &str) -> String {
        let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
        self.run_args(session, &words)
    }

    /// Runs a request. Returns its reply without the last line's end.
    pub fn run_args(&self, session: &mut ClientState, args: &[&[u8]]) -> String {
        let mut request = format!("*{}\r\n", args.len()).into_bytes();
        for arg in args {
            request.extend_from_slice(format!("${}\r\n", arg.len()).as_bytes());
            request.extend_from_slice(arg);
            request.extend_from_slice(b"\r\n");
        }
        let mut out = Vec::new();
        let end = Batch {
            parser: &mut Parser::default(),
            session,
            shared: &self.shared,
            tally: &mut Tally::default(),
            out: &mut out,
            pause_size: usize::MAX,
            slice: &mut Slice::default(),
            can_gather: false,
            entered: Some(self.shared.exclusion.enter(0)),
        }
        .run(&request);
        assert_eq!(end.consumed, request.len());
        String::from_utf8_lossy(&out).trim_end().to_string()
    }
}
