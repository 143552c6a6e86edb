//! What people run, from outside: commands, captures, results.
//!
//! Nothing here links the project's own crates. Frames are judged by etherparse and by an ICRC of
//! their own; results are read as JSON.

mod browser;
mod capture;
mod change;
mod docs;
mod life;
mod metrics;
mod monitor;
mod monitor_large;
mod namespaces;
mod netns_fabric;
mod oracle;
mod replay;
mod rnic;
mod run;
mod service;
mod show;
mod sim;
mod survive;
mod telemetry;
mod terminal;
mod testbed;
mod troubleshooting;
mod trunk;
mod trust;
mod tutorial;
mod watch;
