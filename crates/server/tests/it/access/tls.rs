//! TLS, as clients see it: the same server, and no client that does not speak it disturbs those that do.

#![allow(clippy::unwrap_used, reason = "tests may fail")]

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use everleaf_server::{ClientCertificates, Config, DebugCommand, TlsConfig, TlsFiles};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use crate::support::{Client, TestServer, encode, eventually};

/// An authority, which signs certificates.
struct Authority {
    pem: String,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    fn new() -> Self {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let pem = params.self_signed(&key).unwrap().pem();
        Authority { pem, issuer: Issuer::new(params, key) }
    }

    /// A certificate and its key.
    fn sign(&self) -> (String, String) {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec!["localhost".to_string()]).unwrap();
        (params.signed_by(&key, &self.issuer).unwrap().pem(), key.serialize_pem())
    }

    /// Writes a signed certificate and its key as files of a folder.
    fn write(&self, folder: &Path, name: &str) -> (std::path::PathBuf, std::path::PathBuf) {
        let (certificate, key) = self.sign();
        let paths = (folder.join(format!("{name}.crt")), folder.join(format!("{name}.key")));
        std::fs::write(&paths.0, certificate).unwrap();
        std::fs::write(&paths.1, key).unwrap();
        paths
    }

    /// What a client believes that trusts this authority, and shows a certificate of another one.
    fn trusted(&self, shown_by: Option<&Authority>) -> Arc<ClientConfig> {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(self.pem.as_bytes()).unwrap()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider);
        let builder =
            builder.with_safe_default_protocol_versions().unwrap().with_root_certificates(roots);
        Arc::new(match shown_by {
            None => builder.with_no_client_auth(),
            Some(authority) => {
                let (certificate, key) = authority.sign();
                let chain = vec![CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap()];
                let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap();
                builder.with_client_auth_cert(chain, key).unwrap()
            }
        })
    }
}

/// A server with TLS, and the authority that signed its certificate.
fn serve(clients: Option<(&Authority, ClientCertificates)>) -> (TestServer, Authority) {
    serve_with(clients, |_| {})
}

/// The same, with something else changed.
fn serve_with(
    clients: Option<(&Authority, ClientCertificates)>,
    change: impl FnOnce(&mut Config),
) -> (TestServer, Authority) {
    let authority = Authority::new();
    let folder = tempfile::tempdir().unwrap();
    let (certificate, key) = authority.write(folder.path(), "server");
    let client_authorities = clients.map(|(authority, _)| {
        let path = folder.path().join("clients.crt");
        std::fs::write(&path, &authority.pem).unwrap();
        path
    });
    let client_certificates = clients.map(|(_, wanted)| wanted);
    let files = TlsFiles { certificate, key, client_authorities, client_certificates };
    let store = crate::support::open(&folder.path().join("test.pool"), 4 << 30);
    let server = TestServer::on(folder, store, |config| {
        let handshake_timeout = Duration::from_millis(300);
        config.tls = Some(TlsConfig { port: 0, files, handshake_timeout });
        change(config);
    });
    (server, authority)
}

/// A stream that gives and takes a few bytes at a time.
struct Narrow(TcpStream, usize);

impl Read for Narrow {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let size = buffer.len().min(self.1);
        self.0.read(&mut buffer[..size])
    }
}

impl Write for Narrow {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(&bytes[..bytes.len().min(self.1)])
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

type TlsClient = StreamOwned<ClientConnection, Narrow>;

fn connect(server: &TestServer, config: Arc<ClientConfig>, width: usize) -> TlsClient {
    let stream = TcpStream::connect(server.handle.tls_addr().unwrap()).unwrap();
    stream.set_nodelay(true).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    let name = ServerName::try_from("localhost").unwrap();
    StreamOwned::new(ClientConnection::new(config, name).unwrap(), Narrow(stream, width))
}

/// Sends a request; exactly this must come back.
fn ask(client: &mut TlsClient, request: &[u8], reply: &[u8]) {
    client.write_all(request).unwrap();
    let mut found = vec![0; reply.len()];
    client.read_exact(&mut found).unwrap();
    assert_eq!(found.escape_ascii().to_string(), reply.escape_ascii().to_string());
}

/// Whether a client with this configuration is served.
fn is_served(server: &TestServer, config: &Arc<ClientConfig>) -> bool {
    let mut client = connect(server, Arc::clone(config), usize::MAX);
    let mut reply = [0; 7];
    client.write_all(b"PING\r\n").is_ok()
        && client.read_exact(&mut reply).is_ok()
        && &reply == b"+PONG\r\n"
}

#[test]
fn requests_and_replies_of_any_size_pass_in_any_pieces() {
    let (server, authority) = serve(None);
    let trusted = authority.trusted(None);
    for width in [5, 1_000, usize::MAX] {
        let mut client = connect(&server, Arc::clone(&trusted), width);
        ask(&mut client, b"PING\r\n", b"+PONG\r\n");
        let value = vec![b'v'; if width < 100 { 3_000 } else { 3 << 20 }];
        ask(&mut client, &encode(&[b"SET", &b"k"[..], &value]), b"+OK\r\n");
        let bulk = [format!("${}\r\n", value.len()).as_bytes(), &value, b"\r\n"].concat();
        ask(&mut client, b"GET k\r\n", &bulk);
    }
    // The plain port goes on, with the same keys.
    let mut plain = server.connect();
    assert_eq!(plain.line("STRLEN k"), ":3145728");
    assert!(plain.line("CONFIG GET tls-auth-clients").contains("\"no\""));
}

#[test]
fn a_slow_reader_of_many_replies_gets_all_of_them() {
    let (server, authority) = serve(None);
    let mut client = connect(&server, authority.trusted(None), usize::MAX);
    ask(&mut client, &encode(&[b"SET", &b"k"[..], &[b'x'; 10_000]]), b"+OK\r\n");
    // More than the sockets hold, in pieces of which none is read before all are sent.
    let request = encode(&["GET", "k"]).repeat(2_000);
    client.write_all(&request).unwrap();
    let mut plain = server.connect();
    eventually("replies wait", || !plain.line("INFO clients").contains("client_output_bytes:0"));
    let one = [&b"$10000\r\n"[..], &[b'x'; 10_000], b"\r\n"].concat();
    let mut reply = vec![0; one.len()];
    for number in 0..2_000 {
        client.read_exact(&mut reply).unwrap();
        assert!(reply == one, "reply {number}");
    }
    ask(&mut client, b"ECHO end\r\n", b"$3\r\nend\r\n");
}

#[test]
fn a_client_that_says_goodbye_gets_the_replies_due() {
    let (server, authority) = serve(None);
    let mut client = connect(&server, authority.trusted(None), usize::MAX);
    client.write_all(&b"INCR n\r\n".repeat(500)).unwrap();
    client.conn.send_close_notify();
    client.flush().unwrap();
    let mut replies = Vec::new();
    client.read_to_end(&mut replies).unwrap();
    assert!(replies.ends_with(b":500\r\n"), "{}", replies.escape_ascii());
}

#[test]
fn a_client_that_does_not_speak_tls_disturbs_nobody() {
    let (server, authority) = serve(None);
    let trusted = authority.trusted(None);
    let mut client = connect(&server, Arc::clone(&trusted), usize::MAX);
    ask(&mut client, b"PING\r\n", b"+PONG\r\n");
    let raw = || {
        let stream = TcpStream::connect(server.handle.tls_addr().unwrap()).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        stream
    };
    // Plain requests, a record that is none, a beginning and no more, silence.
    for bytes in [&b"PING\r\n"[..], &[0x16, 3, 1, 0xff, 0xff, 1, 2, 3], &[0x16, 3, 1], b""] {
        let mut stream = raw();
        stream.write_all(bytes).unwrap();
        let mut rest = Vec::new();
        // Closed in any case, at the latest when the time for the handshake is over.
        let _ = stream.read_to_end(&mut rest);
        assert!(!rest.windows(4).any(|part| part == b"PONG"), "{}", rest.escape_ascii());
    }
    // Gone in the middle of a record.
    let mut half = connect(&server, Arc::clone(&trusted), usize::MAX);
    ask(&mut half, b"PING\r\n", b"+PONG\r\n");
    half.sock.0.write_all(&[0x17, 3, 3, 0x40, 0, 1, 2, 3]).unwrap();
    drop(half);
    // Bytes that were changed on the way.
    let mut forged = connect(&server, Arc::clone(&trusted), usize::MAX);
    ask(&mut forged, b"PING\r\n", b"+PONG\r\n");
    forged.sock.0.write_all(&[0x17, 3, 3, 0, 32]).unwrap();
    forged.sock.0.write_all(&[7; 32]).unwrap();
    assert!(
        forged.read(&mut [0; 10]).is_ok_and(|size| size == 0) || forged.read(&mut [0; 10]).is_err()
    );
    // TLS on the plain port.
    let mut wrong = server.connect();
    wrong.send(&[0x16, 3, 1, 2, 0, 1, 0, 1, 252, 3, 3]);
    ask(&mut client, b"PING\r\n", b"+PONG\r\n");
    drop((forged, wrong));
    let mut plain = server.connect();
    eventually("all of them are gone", || plain.line("CLIENT LIST").matches("id=").count() == 2);
}

/// What counted as 16 KiB each, however much of it was there: a first message of which all but the end came.
#[test]
fn unfinished_handshakes_count_with_what_was_sent() {
    const LIMIT: usize = 4 << 20;
    let (server, authority) = serve_with(None, |config| {
        config.client_memory_max = Some(LIMIT);
        if let Some(tls) = &mut config.tls {
            tls.handshake_timeout = Duration::from_secs(600);
        }
    });
    let message = [&[1, 0, 0xfd, 0xe8][..], &[0; 60_000]].concat();
    let mut hello = Vec::new();
    for part in message.chunks(16_384) {
        let size = u16::try_from(part.len()).unwrap().to_be_bytes();
        hello.extend([&[22, 3, 1], &size[..], part].concat());
    }
    let mut plain = server.connect();
    let clients: Vec<TcpStream> = (0..100)
        .map(|_| {
            let mut stream = TcpStream::connect(server.handle.tls_addr().unwrap()).unwrap();
            // Some are closed meanwhile.
            let _ = stream.write_all(&hello);
            stream
        })
        .collect();
    let number = |plain: &mut Client, field: &str| {
        let info = plain.line("INFO");
        let value = info.split(&format!("\\r\\n{field}:")).nth(1).unwrap();
        value.split("\\r\\n").next().unwrap().parse::<usize>().unwrap()
    };
    eventually("some are closed", || number(&mut plain, "evicted_clients") >= 40);
    eventually("the rest is within the limit", || {
        number(&mut plain, "mem_clients_normal") <= LIMIT
    });
    drop(clients);
    // A client that has agreed is counted as before.
    let mut client = connect(&server, authority.trusted(None), usize::MAX);
    ask(&mut client, b"PING\r\n", b"+PONG\r\n");
    let list = plain.line("CLIENT LIST");
    let held = list.rsplit("tot-mem=").next().unwrap().split(' ').next().unwrap();
    assert!(held.parse::<usize>().unwrap() < 20 << 10, "{list}");
}

#[test]
fn clients_show_certificates_where_they_must() {
    let clients = Authority::new();
    for wanted in [ClientCertificates::Required, ClientCertificates::Optional] {
        let (server, authority) = serve(Some((&clients, wanted)));
        let is_optional = wanted == ClientCertificates::Optional;
        assert_eq!(is_served(&server, &authority.trusted(None)), is_optional);
        assert!(is_served(&server, &authority.trusted(Some(&clients))));
        assert!(!is_served(&server, &authority.trusted(Some(&Authority::new()))));
    }
}

#[test]
fn certificates_are_exchanged_while_the_server_runs() {
    let (server, old) = serve(None);
    let mut open = connect(&server, old.trusted(None), usize::MAX);
    ask(&mut open, b"PING\r\n", b"+PONG\r\n");
    let new = Authority::new();
    let (certificate, key) = new.write(server.folder.path(), "new");
    let (certificate, key) = (certificate.to_str().unwrap(), key.to_str().unwrap());
    let mut plain = server.connect();
    // A certificate without its key, and files that are none, change nothing.
    let alone = plain.ask(&["CONFIG", "SET", "tls-cert-file", certificate]);
    assert!(alone.contains("cannot be used"), "{alone}");
    let none = plain.ask(&["CONFIG", "SET", "tls-key-file", "/none/such"]);
    assert!(none.contains("/none/such cannot be read"), "{none}");
    // A pipe was waited for, and a device read, without an end.
    let pipe = server.folder.path().join("pipe");
    let mode = rustix::fs::Mode::from(0o600);
    rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, mode).unwrap();
    for endless in [pipe.to_str().unwrap(), "/dev/zero"] {
        for name in ["tls-key-file", "tls-cert-file"] {
            let refused = plain.ask(&["CONFIG", "SET", name, endless]);
            assert!(refused.contains("not a regular file"), "{refused}");
        }
    }
    let bad = plain.ask(&["CONFIG", "SET", "tls-auth-clients", "maybe"]);
    assert!(bad.contains("no, optional, yes"), "{bad}");
    let unsigned = plain.ask(&["CONFIG", "SET", "tls-auth-clients", "yes"]);
    assert!(unsigned.contains("--tls-ca-cert-file"), "{unsigned}");
    assert!(is_served(&server, &old.trusted(None)));
    let set = ["CONFIG", "SET", "tls-cert-file", certificate, "tls-key-file", key];
    assert_eq!(plain.ask(&set), "+OK");
    assert!(is_served(&server, &new.trusted(None)));
    assert!(!is_served(&server, &old.trusted(None)));
    ask(&mut open, b"PING\r\n", b"+PONG\r\n");
    // The same files with something else in them.
    let (other_certificate, other_key) = old.sign();
    std::fs::write(certificate, other_certificate).unwrap();
    assert!(server.handle.reload_tls().is_err());
    assert!(is_served(&server, &new.trusted(None)));
    std::fs::write(key, other_key).unwrap();
    assert!(server.handle.reload_tls().unwrap());
    assert!(is_served(&server, &old.trusted(None)));
}

/// It was answered with OK, not even read, and clients without a certificate were served as before.
#[test]
fn who_signs_clients_may_be_named_later() {
    let (server, authority) = serve(None);
    let file = server.folder.path().join("clients.crt");
    let name = file.to_str().unwrap();
    let mut plain = server.connect();
    std::fs::write(&file, "no certificate").unwrap();
    let set = ["CONFIG", "SET", "tls-ca-cert-file", name];
    for refused in [plain.ask(&set), plain.ask(&[&set[..], &["tls-auth-clients", "no"]].concat())] {
        assert!(refused.contains("clients.crt has no certificate"), "{refused}");
    }
    assert!(is_served(&server, &authority.trusted(None)));
    std::fs::write(&file, &authority.pem).unwrap();
    assert_eq!(plain.ask(&set), "+OK");
    assert!(plain.line("CONFIG GET tls-auth-clients").contains("\"yes\""));
    assert!(!is_served(&server, &authority.trusted(None)));
    assert!(is_served(&server, &authority.trusted(Some(&authority))));
    // Taking the name away does not let everybody in, unless that is said.
    let unnamed = plain.ask(&["CONFIG", "SET", "tls-ca-cert-file", ""]);
    assert!(unnamed.contains("no authority is named"), "{unnamed}");
    assert!(!is_served(&server, &authority.trusted(None)));
    assert_eq!(
        plain.ask(&["CONFIG", "SET", "tls-ca-cert-file", "", "tls-auth-clients", "no"]),
        "+OK"
    );
    assert!(is_served(&server, &authority.trusted(None)));
}

/// A command that had begun to read its files before another one changed a setting took that back, though it was
/// acknowledged: clients had to show no certificate again.
#[test]
fn settings_that_are_changed_at_once_are_all_kept() {
    use std::sync::atomic::{AtomicUsize, Ordering};
    let authority = Authority::new();
    let (server, _) = serve(Some((&authority, ClientCertificates::No)));
    let path = server.folder.path().join("server.crt");
    // Reading it takes a while.
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, "# a remark\n".repeat(200_000) + &text).unwrap();
    let set = ["CONFIG", "SET", "tls-cert-file", path.to_str().unwrap()];
    for is_command in [true, false] {
        let (rounds, wanted) = (AtomicUsize::new(0), 20);
        // SeqCst: in a test nothing is to be thought about.
        std::thread::scope(|scope| {
            let mut slow = server.connect();
            let (rounds, server, set) = (&rounds, &server, &set);
            scope.spawn(move || {
                while rounds.load(Ordering::SeqCst) < 3 * wanted {
                    match is_command {
                        true => assert_eq!(slow.ask(set), "+OK"),
                        false => assert!(server.handle.reload_tls().unwrap()),
                    }
                    rounds.fetch_add(1, Ordering::SeqCst);
                }
            });
            let mut quick = server.connect();
            for round in 0..wanted {
                let value = ["yes", "optional"][round % 2];
                assert_eq!(quick.ask(&["CONFIG", "SET", "tls-auth-clients", value]), "+OK");
                let begun = rounds.load(Ordering::SeqCst);
                // What was being read meanwhile is in use then.
                eventually("it is read", || {
                    let now = rounds.load(Ordering::SeqCst);
                    now > begun || now >= 3 * wanted
                });
                let kept = quick.line("CONFIG GET tls-auth-clients");
                assert!(kept.contains(&format!("\"{value}\"")), "{is_command} {round}: {kept}");
            }
            rounds.store(3 * wanted, Ordering::SeqCst);
        });
    }
}

/// What was said and is as if it had not been said was not written, and so was forgotten by the next start: with it
/// no client has to show a certificate when an authority is named that signs them.
#[test]
fn what_was_said_of_certificates_of_clients_is_written() {
    use everleaf_server::{ConfigFile, Setting};
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    let rewrite = |_: &str, settings: &[Setting]| {
        let of_clients = settings.iter().filter(|it| it.option == "tls-auth-clients");
        let line = |it: &Setting| match it.value != it.default {
            true => format!("{:?}", it.value),
            false => "nothing".to_string(),
        };
        Ok(of_clients.map(line).collect())
    };
    let file = ConfigFile { path: path.clone(), rewrite: Arc::new(rewrite) };
    std::fs::write(&path, "").unwrap();
    let (server, _) = serve_with(None, |config| config.config_file = Some(file));
    let mut client = server.connect();
    for (said, written) in [("", "nothing"), ("no", "Some(\"no\")")] {
        if !said.is_empty() {
            assert_eq!(client.ask(&["CONFIG", "SET", "tls-auth-clients", said]), "+OK");
        }
        assert_eq!(client.line("CONFIG REWRITE"), "+OK");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), written);
    }
}

/// The second setting was made of the files that were used before the transaction, and so took the first one back.
#[test]
fn settings_of_one_transaction_add_up() {
    let (server, authority) = serve(None);
    let path = |name: &str| server.folder.path().join(name).to_str().unwrap().to_string();
    std::fs::copy(path("server.crt"), path("renewed.crt")).unwrap();
    std::fs::write(path("clients.crt"), &authority.pem).unwrap();
    let mut plain = server.connect();
    assert_eq!(plain.line("MULTI"), "+OK");
    for (name, value) in [
        ("tls-cert-file", &path("renewed.crt")),
        ("tls-ca-cert-file", &path("clients.crt")),
        ("tls-auth-clients", &"yes".to_string()),
        ("tls-key-file", &"/none/such".to_string()),
    ] {
        assert_eq!(plain.ask(&["CONFIG", "SET", name, value]), "+QUEUED");
    }
    let replies = plain.line("EXEC");
    assert!(
        replies.starts_with("[+OK +OK +OK -ERR") && replies.contains("/none/such"),
        "{replies}"
    );
    let got = plain.line("CONFIG GET tls-cert-file tls-ca-cert-file tls-auth-clients");
    for value in [path("renewed.crt"), path("clients.crt"), "\"yes\"".to_string()] {
        assert!(got.contains(&value), "{got}");
    }
    assert!(!is_served(&server, &authority.trusted(None)));
    assert!(is_served(&server, &authority.trusted(Some(&authority))));
}

/// They were read while nobody else was served.
#[test]
fn certificates_of_a_transaction_are_read_before_it_is_run() {
    let (server, authority) = serve_with(None, |config| config.debug_command = DebugCommand::Yes);
    let path = |name: &str| server.folder.path().join(name).to_str().unwrap().to_string();
    std::fs::copy(path("server.crt"), path("renewed.crt")).unwrap();
    let (mut plain, mut other) = (server.connect(), server.connect());
    let set = |name: &str, file: &str| encode(&["CONFIG", "SET", name, &path(file)]);
    plain.send(b"MULTI\r\nDEBUG SLEEP 1.5\r\n");
    plain.send(&[set("tls-cert-file", "renewed.crt"), set("tls-cert-file", "none.crt")].concat());
    plain.send(b"EXEC\r\n");
    // It is run when others are not served any more.
    other.stream.set_read_timeout(Some(Duration::from_millis(250))).unwrap();
    loop {
        other.send(b"GET k\r\n");
        let mut reply = [0; 5];
        if other.stream.read_exact(&mut reply).is_err() {
            break;
        }
    }
    std::fs::rename(path("renewed.crt"), path("none.crt")).unwrap();
    for reply in ["+OK", "+QUEUED", "+QUEUED", "+QUEUED"] {
        assert_eq!(plain.reply(), reply);
    }
    let replies = plain.reply();
    assert!(replies.starts_with("[+OK +OK -ERR"), "{replies}");
    assert!(replies.contains("none.crt cannot be read"), "{replies}");
    assert!(plain.line("CONFIG GET tls-cert-file").contains("renewed.crt"));
    assert!(is_served(&server, &authority.trusted(None)));
}

/// What was lost: the connection of a client that says goodbye, and nothing below it, while a command of its waits.
#[test]
fn who_says_goodbye_while_it_waits_is_noticed() {
    let (server, authority) = serve(None);
    let trusted = authority.trusted(None);
    let mut observer = server.connect();
    let mut waiting = |count: &str| {
        let line = format!("blocked_clients:{count}\\r");
        eventually("as many wait", || observer.line("INFO clients").contains(&line));
    };
    for (behind, is_below) in [(0, false), (0, true), (100_000, false), (100_000, true)] {
        let mut client = connect(&server, Arc::clone(&trusted), usize::MAX);
        client.write_all(b"BLPOP k 0\r\n").unwrap();
        waiting("1");
        client.write_all(&b"PING\r\n".repeat(behind)).unwrap();
        if is_below {
            client.sock.0.shutdown(std::net::Shutdown::Write).unwrap();
        } else {
            client.conn.send_close_notify();
            client.conn.complete_io(&mut client.sock).unwrap();
        }
        waiting("0");
        assert_eq!(client.read(&mut [0; 100]).unwrap(), 0, "nothing is answered, and the end is");
    }
}
