//! Bounds, aging and floods of the neighbour table.

use std::collections::HashMap;

use proptest::prelude::*;

use super::*;

const CONFIG: NeighborConfig = NeighborConfig {
    per_port_max: 4,
    age_ns: 1000,
    ask_ns: 10,
};

fn host(n: u32) -> Address {
    Address::v4(0x0a00_0000 + n)
}

fn mac(n: u8) -> MacAddr {
    MacAddr([2, 0, 0, 0, 0, n])
}

fn table(pinned: &[Address]) -> Neighbors {
    Neighbors::new(
        &CONFIG,
        [(pinned, true), (&[], true), (&[], false)].into_iter(),
    )
}

fn way(mac: Option<MacAddr>, ask: bool) -> Way {
    Way { mac, ask }
}

/// Goal: what one table has learned goes into another with its age; places of others are not taken.
#[test]
fn a_table_takes_over_what_another_has_learned() {
    let (mut old, mut table) = (table(&[]), table(&[]));
    let (one, other) = (host(1), host(2));
    let mac = mac(1);
    old.learn(Nanos(100), 0, one, mac);
    old.way(Nanos(100), 1, other);
    assert_eq!(old.known().count(), 1, "one has told, one was only asked");
    for (port, neighbor) in old.known() {
        table.restore(Nanos(700), port, neighbor);
    }
    let mut all = Vec::new();
    assert_eq!(table.list(0, 100, |port, n| all.push((port, n))), None);
    let told = Neighbor {
        address: one,
        mac: Some(mac),
        told_at: Nanos(100),
    };
    assert_eq!(all, [(0, told)]);
    let mut listed = 0;
    assert_eq!(old.list(0, 3, |_, _| listed += 1), Some(3));
    assert_eq!(old.list(3, 100, |_, _| listed += 1), None);
    assert_eq!(listed, 2);
}

#[test]
fn an_entry_ages_is_asked_again_and_is_forgotten() {
    let mut table = table(&[]);
    assert_eq!(table.way(Nanos(5), 0, host(1)), way(None, true));
    assert_eq!(
        table.way(Nanos(6), 0, host(1)),
        way(None, false),
        "asked a moment ago"
    );
    assert_eq!(table.learn(Nanos(7), 0, host(1), mac(1)), Learned::Known);
    assert_eq!(table.way(Nanos(1006), 0, host(1)), way(Some(mac(1)), false));
    for now in [1007, 1017, 1027] {
        assert_eq!(
            table.way(Nanos(now), 0, host(1)),
            way(Some(mac(1)), true),
            "at {now}"
        );
        assert_eq!(
            table.way(Nanos(now + 9), 0, host(1)),
            way(Some(mac(1)), false)
        );
    }
    assert_eq!(
        table.way(Nanos(1037), 0, host(1)),
        way(None, true),
        "three asks were in vain"
    );
    assert_eq!(table.learn(Nanos(1040), 0, host(1), mac(2)), Learned::Known);
    assert_eq!(table.way(Nanos(2039), 0, host(1)), way(Some(mac(2)), false));
}

#[test]
fn a_flood_pushes_out_no_live_entry_and_no_other_port() {
    let mut table = table(&[host(100)]);
    table.learn(Nanos(1), 0, host(100), mac(100));
    for n in 0..4 {
        assert_eq!(
            table.learn(Nanos(1), 1, host(200 + n), mac(n as u8)),
            Learned::Known
        );
    }
    // Everything that a host can do: tell addresses, and have others send to unknown ones.
    for n in 0..1000 {
        let learned = table.learn(Nanos(2), 0, host(1000 + n), mac(9));
        assert_eq!(learned, if n < 4 { Learned::Known } else { Learned::Full });
        table.way(Nanos(2), 0, host(5000 + n));
    }
    assert_eq!(
        table.way(Nanos(3), 0, host(100)),
        way(Some(mac(100)), false)
    );
    for n in 0..4 {
        assert_eq!(
            table.way(Nanos(3), 1, host(200 + n)),
            way(Some(mac(n as u8)), false)
        );
        assert_eq!(table.way(Nanos(3), 0, host(1000 + n)).mac, Some(mac(9)));
    }
    // Aged ones make room; a configured one keeps its own.
    for n in 0..100 {
        assert_eq!(
            table.learn(Nanos(2000 + 1000 * n), 0, host(9000 + n as u32), mac(7)),
            Learned::Known
        );
    }
    assert_eq!(
        table.learn(Nanos(200_000), 0, host(100), mac(101)),
        Learned::Known
    );
}

#[test]
fn unanswered_addresses_make_room_for_told_ones() {
    let mut table = table(&[]);
    for n in 0..100 {
        let asked = table.way(Nanos(5), 0, host(n));
        assert_eq!(asked, way(None, n < 4), "no more asks at once than places");
    }
    assert_eq!(table.learn(Nanos(6), 0, host(500), mac(5)), Learned::Known);
    assert_eq!(table.way(Nanos(6), 0, host(500)), way(Some(mac(5)), false));
    // A port without a prefix learns nothing.
    assert_eq!(table.learn(Nanos(6), 2, host(600), mac(6)), Learned::Full);
    assert_eq!(table.way(Nanos(6), 2, host(600)), way(None, false));
}

proptest! {
    /// The table agrees with a map as long as nothing ages, and never holds more than its bound.
    #[test]
    fn agrees_with_a_map(moves in proptest::collection::vec((0usize..2, 0u32..12, 0u8..200), 1..200)) {
        let mut table = table(&[]);
        let mut map: HashMap<u32, u8> = HashMap::new();
        for (port, n, value) in moves {
            let address = port as u32 * 100 + n;
            let held = map.keys().filter(|&&a| a / 100 == port as u32).count();
            let fits = held < 4 || map.contains_key(&address);
            let learned = table.learn(Nanos(1), port, host(address), mac(value));
            prop_assert_eq!(learned == Learned::Known, fits);
            if fits {
                map.insert(address, value);
            }
            for (&address, &value) in &map {
                prop_assert_eq!(table.way(Nanos(1), address as usize / 100, host(address)).mac, Some(mac(value)));
            }
        }
    }
}
