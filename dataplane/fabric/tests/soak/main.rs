//! Many small fabrics in which faults come and are repaired, and an oracle that knows them.
//!
//! A trial is two to four episodes of a random fabric with random traffic: links that lose, damage, delay,
//! flap, go down or are taken out, one after the other or two at once. Control must never name a
//! link that has lost nothing, and must name each that loses enough in time.
//!
//! **What must be found, and when**: losses of 0.5 % and more (the detector's target rate), by
//! source or hop counts, of a link whose spine has no other bad link in that trial. In time is: with
//! the test that gives a second path over the link the packets in which 20 losses are expected (80
//! for bursts), and six standard deviations of what the path's packets before were allowed to lose,
//! all of windows within the episode; once tests have cleared the other links of those paths. Receive-only evidence is held to naming nobody wrongly.
//!
//! The short form runs here. `scripts/trust soak` runs the long one: `SOAK_EPISODES` and
//! `SOAK_FIRST`, the first trial's number, make pieces of it, and `SOAK_KEEP` names the file to
//! which a piece adds its line. `SOAK_TRIALS` tells every episode.

mod draw;
mod oracle;

use std::collections::BTreeMap;
use std::io::Write;
use std::time::Instant;

use detector::Link;
use draw::Trial;
use fabric::Engine;
use oracle::{Found, Looks, Named, Oracle};
use pipeline::Note;

/// Episodes of the short form.
const SHORT: u64 = 8;
/// Hops between two looks at what is named.
const LOOK_HOPS: u64 = 10_000;

/// A number from the environment.
fn set(name: &str, otherwise: u64) -> u64 {
    let text = std::env::var(name).ok();
    text.map_or(otherwise, |text| {
        text.parse()
            .unwrap_or_else(|error| panic!("{name}={text}: {error}"))
    })
}

/// What trials have shown.
#[derive(Default)]
struct Sums {
    trials: u64,
    episodes: u64,
    due: u64,
    in_time: u64,
    not_held: u64,
    too_few: u64,
    others_named: u64,
    harmless: u64,
    marked: u64,
    hops: u64,
    tests: u64,
    fabric_ns: u64,
    false_convictions: u64,
    false_paths: u64,
    false_receive_only: u64,
    slowest_ns: u64,
    wrong: Vec<String>,
    /// Every episode and what came of it.
    told: Vec<String>,
}

/// Runs a trial to its end and holds what control said against the truth.
fn run(number: u64, sums: &mut Sums) {
    let trial = Trial::draw(number);
    let oracle = Oracle::new(&trial);
    let mut engine =
        Engine::new(&trial.config).unwrap_or_else(|error| panic!("trial {number}: {error}"));
    let mut looks = Looks::default();
    let mut wrong: BTreeMap<Link, u64> = BTreeMap::new();
    let mut look = |engine: &mut Engine, known: usize| {
        looks.known.push(known);
        let now_ns = engine.status().now_ns;
        for found in engine.named().convicted {
            if !oracle.is_guilty(found.link, now_ns) {
                wrong.entry(found.link).or_insert(now_ns);
            }
            let at_ns = found.at_ns.0;
            let named = Named { at_ns, known };
            looks.named.entry(found.link).or_insert(named);
        }
    };
    while engine.run_hops(LOOK_HOPS) {
        let known = engine.core().verdicts().len();
        look(&mut engine, known);
    }
    let tested = engine.core().verdicts().to_vec();
    look(&mut engine, tested.len());
    // At the end what waits for more packets is judged as well: such a test stands with an earlier
    // window, and nothing could be due by that.
    engine.end();
    look(&mut engine, usize::MAX);
    let account = engine.account();
    // A connection ends when what it sends is lost eight times in a row.
    let gives_up = trial
        .episodes
        .iter()
        .any(|episode| episode.what.rate() > 0.1);
    assert!(
        account.links_conserved
            && account.leaked == 0
            && (account.host_errors == 0 || gives_up)
            && account.switches.iter().all(|(_, _, holds)| *holds),
        "trial {number}: packets are unaccounted for: {account:?}"
    );
    let verdicts = engine.core().verdicts();
    let is_receive_only = trial.config.testbed.evidence == config::Evidence::ReceiveOnly;
    let failed = oracle.false_paths(verdicts);
    let false_paths = failed.len() as u64;
    match is_receive_only {
        true => sums.false_receive_only += false_paths,
        false => sums.false_paths += false_paths,
    }
    if false_paths > 0 {
        sums.wrong
            .push(format!("trial {number}: healthy paths failed: {failed:?}"));
    }
    for (link, at_ns) in wrong {
        sums.false_convictions += 1;
        sums.wrong.push(format!(
            "trial {number}: {link} was named at {at_ns} ns and has lost nothing"
        ));
    }
    for episode in &trial.episodes {
        sums.episodes += 1;
        let found = oracle.judge(episode, &tested, &looks);
        sums.told
            .push(format!("trial {number}: {episode:?}: {found:?}"));
        match found {
            Found::Silent => sums.harmless += 1,
            Found::NotHeld { is_named } => {
                sums.not_held += 1;
                sums.others_named += u64::from(is_named);
            }
            Found::TooFew { is_named } => {
                sums.too_few += 1;
                sums.others_named += u64::from(is_named);
            }
            Found::InTime { after_ns } => {
                sums.due += 1;
                sums.in_time += 1;
                sums.slowest_ns = sums.slowest_ns.max(after_ns);
            }
            Found::Missed { due_ns } => {
                sums.due += 1;
                sums.wrong.push(format!(
                    "trial {number}: {episode:?} was to be named at {due_ns} ns, and was: {:?}",
                    looks.named.get(&episode.link)
                ));
            }
        }
    }
    let noted = |note| account.switches.iter().map(move |(c, _, _)| c.noted(note));
    sums.trials += 1;
    sums.marked += noted(Note::Marked).sum::<u64>();
    sums.hops += engine.hops();
    sums.tests += engine.core().path_tests();
    sums.fabric_ns += engine.status().now_ns;
}

/// Fault: faults on random links that come and are repaired (8 episodes; `scripts/trust soak`)
/// Forwarding: as links let it
/// Verdicts: nobody is named wrongly; what loses 0.5 % is named in time
/// Counter: -
/// Right again: by the rule of the soak, below
#[test]
fn faults_that_come_and_go_are_found_and_nobody_else_is_named() {
    let (first, episodes) = (set("SOAK_FIRST", 0), set("SOAK_EPISODES", SHORT));
    let mut sums = Sums::default();
    let begun = Instant::now();
    let limit = set("SOAK_SECONDS", u64::MAX);
    let mut number = first;
    while sums.episodes < episodes && begun.elapsed().as_secs() < limit {
        run(number, &mut sums);
        number += 1;
    }
    let seconds = begun.elapsed().as_secs_f64();
    let line = format!(
        "soak first={first} last={} episodes={} marked={} tests={} hops={} fabric_ms={:.0} seconds={seconds:.0} due={} in_time={} \
         slowest_ms={:.2} not_held={} too_few={} others_named={} harmless={} false_convictions={} false_paths={} false_receive_only={}",
        number - 1,
        sums.episodes,
        sums.marked,
        sums.tests,
        sums.hops,
        sums.fabric_ns as f64 / 1e6,
        sums.due,
        sums.in_time,
        sums.slowest_ns as f64 / 1e6,
        sums.not_held,
        sums.too_few,
        sums.others_named,
        sums.harmless,
        sums.false_convictions,
        sums.false_paths,
        sums.false_receive_only,
    );
    println!("{line}");
    if std::env::var_os("SOAK_TRIALS").is_some() {
        sums.told.iter().for_each(|told| println!("{told}"));
    }
    for wrong in &sums.wrong {
        println!("{wrong}");
    }
    if let Ok(path) = std::env::var("SOAK_KEEP") {
        let mut file = std::fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(&path);
        let file = file
            .as_mut()
            .unwrap_or_else(|error| panic!("{path}: {error}"));
        writeln!(file, "{line}").unwrap_or_else(|error| panic!("{path}: {error}"));
    }
    assert!(sums.due > 0, "no fault had to be found: {line}");
    assert_eq!(
        (sums.false_convictions, sums.false_paths, sums.in_time),
        (0, 0, sums.due),
        "{line}"
    );
}
