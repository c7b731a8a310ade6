//! Which arguments of a command nobody but its sender may see: `MONITOR` and `SLOWLOG` show [`HIDDEN`] in their place.

/// What is shown instead.
pub const HIDDEN: &str = "(redacted)";

/// For each argument of a command, its name included, whether it is hidden: what follows `AUTH`, wherever that stands
/// in a `HELLO`; passwords that `CONFIG SET` is given, also for options that there are elsewhere, or nowhere; all that
/// `ACL SETUSER` is told.
pub fn hidden(args: &[&[u8]]) -> Vec<bool> {
    let is = |position: usize, word: &[u8]| {
        args.get(position).is_some_and(|arg: &&[u8]| arg.eq_ignore_ascii_case(word))
    };
    let sets = is(0, b"config") && is(1, b"set");
    let is_hidden = |position: usize| match position {
        0 => false,
        _ if is(0, b"auth") => true,
        _ if is(0, b"hello") => {
            let follows = |by: usize| position > by && is(position - by, b"auth");
            follows(1) || follows(2)
        }
        _ if is(0, b"acl") && is(1, b"setuser") => position > 1,
        _ if sets && position > 2 => position % 2 == 1 && names_password(args[position - 1]),
        _ => false,
    };
    (0..args.len()).map(is_hidden).collect()
}

/// Whether an option is a password, by its name.
fn names_password(option: &[u8]) -> bool {
    let name = option.to_ascii_lowercase();
    name == b"masterauth" || name.windows(4).any(|part| part == b"pass")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The arguments with what is shown of them.
    fn shown(command: &str) -> String {
        let args: Vec<&[u8]> = command.split(' ').map(str::as_bytes).collect();
        let parts = args.iter().zip(hidden(&args));
        let parts = parts.map(|(arg, is_hidden)| match is_hidden {
            true => "*",
            false => std::str::from_utf8(arg).unwrap(),
        });
        parts.collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn passwords_are_hidden_and_nothing_else() {
        for (command, expected) in [
            ("auth u p", "auth * *"),
            ("HELLO 3 SETNAME n Auth u p x", "HELLO 3 SETNAME n Auth * * x"),
            ("hello auth", "hello auth"),
            // The version was forgotten: it is refused, and shown all the same.
            ("hello AUTH u p", "hello AUTH * *"),
            ("HELLO auth u p setname n", "HELLO auth * * setname n"),
            ("hello setname auth u p", "hello setname auth * *"),
            ("config set requirepass p", "config set requirepass *"),
            ("CONFIG SET timeout 1 MasterAuth p", "CONFIG SET timeout 1 MasterAuth *"),
            ("config set tls-key-file-pass p", "config set tls-key-file-pass *"),
            ("config set TLS-Client-Key-File-Pass p", "config set TLS-Client-Key-File-Pass *"),
            ("config set require-pass p masterauth q", "config set require-pass * masterauth *"),
            ("config set timeout requirepass", "config set timeout requirepass"),
            ("config get requirepass", "config get requirepass"),
            ("acl setuser u >p", "acl setuser * *"),
            ("acl deluser u", "acl deluser u"),
            ("set auth p", "set auth p"),
        ] {
            assert_eq!(shown(command), expected);
        }
    }
}
