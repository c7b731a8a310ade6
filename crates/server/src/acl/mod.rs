//! What a client may do (`ACL`): users with passwords and permissions, in memory and in a file of one line each.
//!
//! ```text
//!   Acl: users by name ---> User: its rules, replaced as a whole
//!    |                        ^
//!    generation               | Permissions of a connection: its user, the rules as seen last, their generation
//! ```
//!
//! A command that changes a user first replaces its rules, then counts the generation up; a connection that finds
//! another generation than its own looks at its user again before it runs the next command. So a change is in force,
//! for all event loops, when the command that made it is answered, but for commands that are being run: of a pipeline
//! that another loop has read, up to 128 that it has looked at and collected to run them together.

pub mod attempts;
pub mod commands;
pub mod facts;
pub mod file;
pub mod log;
mod selector;
pub mod user;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockWriteGuard};

use self::attempts::Attempts;
use self::log::AclLog;
pub use self::selector::{Denied, Selector, has_space};
use self::user::{Rules, User};
use crate::{Config, ServerError, password};

/// The user that connections have at first.
pub const DEFAULT: &[u8] = b"default";

/// All users. Thread-safe.
#[derive(Debug)]
pub struct Acl {
    users: RwLock<BTreeMap<Vec<u8>, Arc<User>>>,
    default: Arc<User>,
    generation: AtomicU64,
    /// Where they are kept.
    file: Option<PathBuf>,
    /// Held while the file is written: one at a time.
    saving: Mutex<()>,
    pub log: AclLog,
    pub attempts: Attempts,
}

/// The rules of a user, or of a new one, with these added.
fn with_rules(user: Option<&Arc<User>>, rules: &[&[u8]]) -> Result<Rules, Vec<u8>> {
    let known = user.and_then(|user| user.rules());
    let mut changed = known.map_or_else(Rules::new, |rules| (*rules).clone());
    changed.apply_all(rules)?;
    Ok(changed)
}

/// The user of a connection, and what it may do.
#[derive(Clone, Debug)]
pub struct Permissions {
    pub user: Arc<User>,
    rules: Arc<Rules>,
    generation: u64,
}

impl Permissions {
    /// Whether nothing is refused to it, as of this generation.
    #[inline]
    pub fn allows_all(&self, generation: u64) -> bool {
        self.generation == generation && self.rules.allows_all()
    }

    /// What it may do, as seen last.
    pub fn rules(&self) -> &Rules {
        &self.rules
    }

    /// Looks again at what its user may do, if that has changed. Returns whether the user is still there.
    pub fn refresh(&mut self, acl: &Acl) -> bool {
        let generation = acl.generation();
        if generation != self.generation {
            let Some(rules) = self.user.rules() else { return false };
            (self.rules, self.generation) = (rules, generation);
        }
        true
    }
}

impl Acl {
    /// The users of a configuration: those of its file, or one with its password.
    pub fn open(config: &Config) -> Result<Self, ServerError> {
        let mut users = BTreeMap::new();
        if let Some(path) = &config.acl_file {
            let known = file::load(path).map_err(|errors| {
                ServerError::Config(format!("the users cannot be read: {}", errors.trim_end()))
            })?;
            users.extend(known.into_iter().map(|(name, rules)| {
                let user = Arc::new(User::new(&name, rules));
                (name, user)
            }));
        }
        let default = users.entry(DEFAULT.to_vec()).or_insert_with(|| {
            Arc::new(User::new(DEFAULT, Rules::of_default(config.password.as_deref())))
        });
        Ok(Acl {
            default: Arc::clone(default),
            users: RwLock::new(users),
            generation: AtomicU64::new(1),
            file: config.acl_file.clone(),
            saving: Mutex::new(()),
            log: AclLog::default(),
            attempts: Attempts::default(),
        })
    }

    /// Counts the changes.
    #[inline]
    pub fn generation(&self) -> u64 {
        // Acquire: pairs with the Release in `changed`; the rules it counts are seen, or later ones.
        self.generation.load(Ordering::Acquire)
    }

    fn changed(&self) {
        // Release: pairs with the Acquire in `generation`; after the rules were replaced.
        self.generation.fetch_add(1, Ordering::Release);
    }

    /// What a new connection is, and whether it may come in without a password.
    pub fn arrive(&self) -> (Permissions, bool) {
        let permissions = self.permissions(&self.default);
        let permissions = permissions.unwrap_or_else(|| self.nobody());
        let is_open = permissions.rules.is_open();
        (permissions, is_open)
    }

    /// The default user is never deleted.
    fn nobody(&self) -> Permissions {
        Permissions {
            user: Arc::clone(&self.default),
            rules: Arc::new(Rules::new()),
            generation: 0,
        }
    }

    fn permissions(&self, user: &Arc<User>) -> Option<Permissions> {
        let generation = self.generation();
        Some(Permissions { user: Arc::clone(user), rules: user.rules()?, generation })
    }

    /// Whether a connection needs no password.
    pub fn is_open(&self) -> bool {
        self.default.rules().is_some_and(|rules| rules.is_open())
    }

    /// Whether any password is right for the default user.
    pub fn default_has_no_password(&self) -> bool {
        self.default.rules().is_some_and(|rules| rules.has_no_password())
    }

    /// The user that comes in with this name and password.
    pub fn admit(&self, name: &[u8], given: &[u8]) -> Option<Permissions> {
        // Also for nobody, so that the time does not tell which names there are.
        let given = password::hash(given)?;
        let permissions = self.get(name).and_then(|user| self.permissions(&user));
        permissions.filter(|permissions| permissions.rules.admits(&given))
    }

    /// The user of this name.
    pub fn get(&self, name: &[u8]) -> Option<Arc<User>> {
        self.users.read().unwrap_or_else(PoisonError::into_inner).get(name).cloned()
    }

    /// All users, by name.
    pub fn all(&self) -> Vec<Arc<User>> {
        self.users.read().unwrap_or_else(PoisonError::into_inner).values().cloned().collect()
    }

    /// Changes a user, or makes it. The error is a sentence.
    pub fn set(&self, name: &[u8], rules: &[&[u8]]) -> Result<(), Vec<u8>> {
        // One change at a time.
        let mut users = self.write();
        let known = users.get(name).cloned();
        let changed = with_rules(known.as_ref(), rules)?;
        match known {
            Some(user) => user.set(Some(changed)),
            None => {
                users.insert(name.to_vec(), Arc::new(User::new(name, changed)));
            }
        }
        drop(users);
        self.changed();
        Ok(())
    }

    /// Whether [`Self::set`] could do this now.
    pub fn check(&self, name: &[u8], rules: &[&[u8]]) -> Result<(), Vec<u8>> {
        with_rules(self.get(name).as_ref(), rules).map(|_| ())
    }

    /// Deletes a user. Its connections must be closed.
    pub fn delete(&self, name: &[u8]) -> Option<Arc<User>> {
        let user = self.write().remove(name)?;
        user.set(None);
        self.changed();
        Some(user)
    }

    /// Where the users are kept.
    pub fn file(&self) -> Option<&Path> {
        self.file.as_deref()
    }

    /// Replaces all users by those of the file, or none. Returns the users that there are no more, all but the default
    /// one, whose connections must be closed. The error is a line that tells of all mistakes.
    pub fn load(&self, path: &Path) -> Result<Vec<Arc<User>>, String> {
        let mut known = file::load(path)?;
        let default = known.remove(DEFAULT).unwrap_or_else(|| Rules::of_default(None));
        let mut users = self.write();
        let mut old = std::mem::take(&mut *users);
        old.remove(DEFAULT);
        old.values().for_each(|user| user.set(None));
        self.default.set(Some(default));
        users.insert(DEFAULT.to_vec(), Arc::clone(&self.default));
        users.extend(known.into_iter().map(|(name, rules)| {
            let user = Arc::new(User::new(&name, rules));
            (name, user)
        }));
        drop(users);
        self.changed();
        Ok(old.into_values().collect())
    }

    /// Writes all users to the file.
    pub fn save(&self, path: &Path) -> std::io::Result<()> {
        let _saving = self.saving.lock().unwrap_or_else(PoisonError::into_inner);
        let mut text = Vec::new();
        for user in self.all() {
            // One that is deleted meanwhile is not there.
            let Some(rules) = user.rules() else { continue };
            text.extend(describe(&user.name, &rules));
            text.push(b'\n');
        }
        file::save(path, &text)
    }

    fn write(&self) -> RwLockWriteGuard<'_, BTreeMap<Vec<u8>, Arc<User>>> {
        self.users.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A user as a line of the file.
pub fn describe(name: &[u8], rules: &Rules) -> Vec<u8> {
    [b"user ", name, b" ", &rules.describe()].concat()
}
