//! A monitor that hears switches over NATS: Debian's `nats-server` with JetStream (`scripts/packages monitor`). Where it is
//! not installed the tests say so, and are skipped.

mod alone;
#[path = "../played/certificates.rs"]
mod certificates;
mod killed;
#[path = "../played/mod.rs"]
mod played;
mod server;
mod tls;
