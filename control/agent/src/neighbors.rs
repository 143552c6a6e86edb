//! `show neighbors`: the hosts that are configured, and those that switches have learned or ask for.
//!
//! What was learned is an lcore's; it is asked for in listings of bounded length, so that a poll loop
//! is never away for long.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use pipeline::{PortId, PortKind};
use serde_json::{Value, json};

use crate::control::State;
use crate::seam::{Listing, Order, ToPart};

/// How often an answer is looked for.
const LOOK: Duration = Duration::from_millis(1);
/// Looks until an lcore counts as hung.
const LOOKS_MAX: u32 = 2000;

/// Listings that have come back.
#[derive(Default)]
pub(crate) struct Listings {
    tickets: u64,
    wanted: Vec<u64>,
    back: Vec<Listing>,
}

impl Listings {
    fn ticket(&mut self) -> u64 {
        self.tickets += 1;
        self.wanted.push(self.tickets);
        self.tickets
    }

    /// A listing is back; one that nobody waits for any more goes.
    pub(crate) fn keep(&mut self, listing: Listing) {
        if self.wanted.contains(&listing.ticket) {
            self.back.push(listing);
        }
    }

    fn take(&mut self, ticket: u64) -> Option<Listing> {
        let place = self.back.iter().position(|of| of.ticket == ticket)?;
        self.forget(ticket);
        Some(self.back.swap_remove(place))
    }

    fn forget(&mut self, ticket: u64) {
        self.wanted.retain(|&wanted| wanted != ticket);
    }
}

/// The rows of `show neighbors`.
pub(crate) async fn rows(state: &Rc<RefCell<State>>) -> Result<Vec<Value>, String> {
    let mut rows = configured(&state.borrow());
    let (switches, lcores) = {
        let state = state.borrow();
        (state.config.switches.len(), state.shared.lcores.len())
    };
    for switch in 0..switches {
        if !learns(&state.borrow(), switch) {
            continue;
        }
        let mut from = Some(0);
        while let Some(at) = from {
            // What one instance learns, all are told.
            let listing = ask(state, (switch * lcores) as u16, at).await?;
            from = listing.next;
            let state = state.borrow();
            rows.extend(listing.rows.iter().map(|(port, neighbor)| {
                let age_ns = listing.now.0.saturating_sub(neighbor.told_at.0);
                let is_known = neighbor.mac.is_some();
                json!({
                    "switch": name(&state, switch), "port": port_name(&state, switch, *port),
                    "address": neighbor.address.to_string(), "mac": neighbor.mac.map(|mac| mac.to_string()),
                    "state": if is_known { "learned" } else { "asked" },
                    "age_s": is_known.then_some(age_ns / 1_000_000_000),
                })
            }));
        }
    }
    Ok(rows)
}

fn name(state: &State, switch: usize) -> &str {
    let named = state.config.switches.get(switch);
    named.map_or("", |(name, _)| name)
}

fn port_name(state: &State, switch: usize, port: PortId) -> &str {
    let named = state.config.switches.get(switch);
    let name = named.and_then(|(_, ports)| ports.get(port.index()));
    name.map_or("", String::as_str)
}

/// Whether a switch has hosts whose MAC addresses it learns.
fn learns(state: &State, switch: usize) -> bool {
    let configs = state.config.subject.configs();
    let Some(config) = configs.get(switch) else {
        return false;
    };
    let has_hosts = config.ports.iter().any(|port| port.kind == PortKind::Host);
    let is_prefix = |route: &pipeline::Route| matches!(route.next, pipeline::NextHop::Port(_));
    has_hosts
        && (config.routes.iter().any(is_prefix) || config.hosts.iter().any(|h| h.mac.is_none()))
}

fn configured(state: &State) -> Vec<Value> {
    let configs = state.config.subject.configs();
    let of_switch = |(switch, config): (usize, &&pipeline::SwitchConfig)| {
        let hosts = config
            .hosts
            .iter()
            .filter_map(|host| Some((host, host.mac?)));
        let row = |(host, mac): (&pipeline::HostConfig, packet::MacAddr)| {
            json!({
                "switch": name(state, switch), "port": port_name(state, switch, PortId(host.port)),
                "address": host.address.to_string(), "mac": mac.to_string(),
                "state": "configured", "age_s": null,
            })
        };
        hosts.map(row).collect::<Vec<_>>()
    };
    configs.iter().enumerate().flat_map(of_switch).collect()
}

async fn ask(state: &Rc<RefCell<State>>, part: u16, from: usize) -> Result<Listing, String> {
    let ticket = {
        let mut state = state.borrow_mut();
        let ticket = state.listings.ticket();
        let order = Order::Neighbors(Box::new(Listing::new(ticket, from)));
        let ring = state.shared.seam.orders_of(usize::from(part));
        // Half of the ring is for changes.
        if ring.len() > ring.capacity() / 2 || ring.push(ToPart { part, order }).is_err() {
            state.listings.forget(ticket);
            return Err("the lcore has not taken earlier orders; ask again".to_owned());
        }
        ticket
    };
    for _ in 0..LOOKS_MAX {
        tokio::time::sleep(LOOK).await;
        if let Some(listing) = state.borrow_mut().listings.take(ticket) {
            return Ok(listing);
        }
    }
    state.borrow_mut().listings.forget(ticket);
    Err("the lcore does not answer; does its poll loop turn? see show lcores".to_owned())
}
